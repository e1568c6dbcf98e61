"""
The unit for systemd, and the container file.
"""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tickwheel.service import ServiceOptions

ROOT = Path(__file__).parents[2]
HARDENED = {
    "NoNewPrivileges": "yes",
    "DynamicUser": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    "MemoryDenyWriteExecute": "yes",
    "UMask": "0077",
}
INSTRUCTIONS = {
    "FROM",
    "RUN",
    "WORKDIR",
    "COPY",
    "ENV",
    "USER",
    "VOLUME",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ENTRYPOINT",
}
EXPOSURE_MAX = 2.0


class Repeated(dict):
    """
    A section of a unit in which an option may be repeated, as systemd allows.
    """

    def __setitem__(self, name, value):
        if not (name in self and isinstance(value, list)):
            super().__setitem__(name, value)


@pytest.fixture
def unit(deploy) -> configparser.RawConfigParser:
    """
    Return the parsed unit.
    """
    parser = configparser.RawConfigParser(strict=False, dict_type=Repeated, delimiters=("=",))
    parser.optionxform = str
    parser.read(deploy / "tickwheel.service", "utf-8")
    return parser


@pytest.fixture
def steps(deploy) -> list[tuple[str, str]]:
    """
    Return the instructions of the container file in order, with continued lines joined.
    """
    text = re.sub(r"\\\n", " ", (deploy / "Containerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in lines]


def serve_options() -> str:
    """
    Return the output of `tickwheel serve --help`.
    """
    command = [sys.executable, "-m", "tickwheel.cli", "serve", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_unit_is_hardened(unit):
    """
    The unit gives the service its own user, one folder and the network, and nothing else.
    """
    service = unit["Service"]
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    assert service["StateDirectory"] == "tickwheel"
    assert service["Restart"] == "always"
    assert float(service["TimeoutStopSec"]) > ServiceOptions().stop_timeout_s
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_unit_starts_serve(unit):
    """
    The unit starts `tickwheel serve` with existing options, on the loopback address.
    """
    words = unit["Service"]["ExecStart"].split()
    assert Path(words[0]).name == "tickwheel"
    assert words[1] == "serve"
    help_text = serve_options()
    assert [word for word in words if word.startswith("--") and word not in help_text] == []
    assert words[words.index("--host") + 1] == "127.0.0.1"


def test_systemd_takes_the_unit(deploy, tmp_path):
    """
    Systemd finds no fault in the unit, and rates its exposure as small.
    """
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    text = (deploy / "tickwheel.service").read_text("utf-8")
    copy = tmp_path / "tickwheel.service"
    copy.write_text(text.replace("/opt/tickwheel/bin/tickwheel", sys.executable), "utf-8")
    answer = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")
    command = [analyze, "security", "--offline=yes", "--no-pager", str(copy)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    exposure = re.search(r"Overall exposure level for tickwheel\.service: ([\d.]+)", answer.stdout)
    assert exposure, answer.stderr
    assert float(exposure[1]) <= EXPOSURE_MAX


def test_the_container_file_is_well_made(steps):
    """
    The container file has only known instructions and pinned images, and the service does not run as root.
    """
    assert {name for name, _ in steps} <= INSTRUCTIONS
    images = [rest.split() for name, rest in steps if name == "FROM"]
    stages = {words[words.index("AS") + 1] for words in images if "AS" in words}
    assert all(re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*|[\w./-]+:\w+-slim", words[0]) for words in images), images
    assert "latest" not in str(images)
    for name, rest in steps:
        if name == "COPY" and rest.startswith("--from="):
            assert rest.split()[0].removeprefix("--from=") in stages
        if name == "RUN" and "apt-get install" in rest:
            assert "apt-get update" in rest
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists/*" in rest
    last = steps[max(place for place, (name, _) in enumerate(steps) if name == "FROM") :]
    user = dict(last)["USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "not root, and a number, so that Kubernetes can see it"
    assert [name for name, _ in last].index("USER") < [name for name, _ in last].index("ENTRYPOINT")


def test_the_container_starts_serve(steps):
    """
    The container runs `tickwheel serve` with existing options on the exposed port, and requires a token.
    """
    found = dict(steps)
    words = json.loads(found["ENTRYPOINT"])
    assert words[:2] == ["/venv/bin/tickwheel", "serve"]
    help_text = serve_options()
    assert [word for word in words if word.startswith("--") and word not in help_text] == []
    assert found["EXPOSE"] == str(ServiceOptions().port)
    assert f":{ServiceOptions().port}/healthz" in found["HEALTHCHECK"], (
        "a store that is unreachable must not cause a restart"
    )
    with pytest.raises(ValueError, match="token"):
        ServiceOptions(host=words[words.index("--host") + 1]).check()


def test_the_container_has_the_promised_extras(steps):
    """
    The container has the extras for all stores and brokers and for traces.

    All packages are pinned with hashes.
    """
    assert any(
        name == "RUN" and "--require-hashes --requirement requirements/image.txt" in rest for name, rest in steps
    )
    text = (ROOT / "requirements" / "image.txt").read_text("utf-8")
    pins = set(re.findall(r"^([\w-]+)==", text, re.MULTILINE))
    hashed = re.findall(r"^([\w-]+)==[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert set(hashed) == pins
    wanted = {
        "psycopg-binary",
        "redis",
        "aio-pika",
        "nats-py",
        "confluent-kafka",
        "httpx",
        "aiohttp",
        "uvloop",
        "cronsim",
    }
    assert wanted | {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= pins


def test_the_builder_gets_only_the_sources():
    """
    The builder of the image gets exactly the files that it needs to build the wheel.
    """
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert lines[1] == "*", "everything is left out, then some is let in"
    assert [name for name in kept if not (ROOT / name).exists()] == []
    built_from = {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "crates", "pyproject.toml", "src"}
    assert set(kept) == built_from | {"requirements/build.txt", "requirements/image.txt"}


def test_the_container_builds_with_the_right_rust(steps):
    """
    The image that builds the wheel has the Rust version that Cargo.toml requires.

    Every requirements file that the build uses exists.
    """
    wanted = re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    image = next(rest.split()[0] for name, rest in steps if name == "FROM")
    assert wanted
    assert f"rust:{wanted[1]}-" in image
    named = {word for name, rest in steps if name == "RUN" for word in rest.split() if word.startswith("requirements/")}
    assert named
    assert all((ROOT / word).exists() for word in named)
