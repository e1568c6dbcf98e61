"""
Carry out the steps of the Containerfile with debootstrap and chroot, without a container engine, and test the result.

    sudo python -P scripts/rootfs.py build/rootfs

In place of Debian's image, debootstrap makes the same Debian version from the mirror that this machine's apt uses. In
place of the image with Rust, a copy of that Debian gets this machine's compiler. The other steps are read from the
Containerfile.

At the end the service is run once as a container would run it. It must refuse to start without a token, run as the user
that the Containerfile names, import every extra, answer its health check, set a job, and end after SIGTERM with exit
code 0.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
EXTRAS = (
    "psycopg",
    "redis",
    "aio_pika",
    "nats",
    "confluent_kafka",
    "opentelemetry.sdk",
    "uvloop",
    "aiohttp",
    "cronsim",
)
TOKEN = "a-token-of-this-run-only"  # noqa: S105 - only for the service that this script starts
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""This machine's certificates, by which it trusts its package registries."""
START_MAX_S = 60.0


@dataclass
class Stage:
    """
    One stage of the Containerfile, with its folder and the settings of all instructions that were already carried out.
    """

    folder: Path
    image: str
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    place: str = "/"
    settings: dict[str, str] = field(default_factory=dict)

    def command(self, words: list[str], *, user: str = "0:0", **environment: str) -> list[str]:
        """
        Return the command that runs *words* in this stage.
        """
        base = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }
        variables = [f"{name}={value}" for name, value in {**base, **self.environment, **environment}.items()]
        inside = f"cd {shlex.quote(self.place)} && exec {shlex.join(words)}"
        return ["env", "-i", *variables, "chroot", f"--userspec={user}", str(self.folder), "/bin/sh", "-c", inside]


def instructions() -> list[tuple[str, str]]:
    """
    Return the Containerfile's instructions in order; an instruction of several lines is one text.
    """
    text = re.sub(r"\\\n", " ", CONTAINERFILE.read_text("utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in lines]


def run(command: list[str], **options: object) -> None:
    """
    Run a command, and raise an error if its exit code is not 0.
    """
    subprocess.run(command, check=True, **options)  # type: ignore[call-overload]


def mirror() -> str:
    """
    Return the address of the Debian mirror that this machine's apt uses.
    """
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return next(line for line in answer.splitlines() if re.search(r"/debian/?$", line))


def base(folder: Path, suite: str) -> None:
    """
    Make a minimal Debian in *folder*, unless it exists.
    """
    if (folder / "etc" / "debian_version").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"rootfs: debootstrap {suite}", flush=True)
    run(["debootstrap", "--variant=minbase", suite, str(folder), mirror()], stdout=subprocess.DEVNULL)


def end(folder: Path) -> None:
    """
    Unmount everything that is mounted for a stage in *folder*.
    """
    if (folder / "proc" / "self").exists():
        run(["umount", str(folder / "proc")])


def begin(work: Path, image: str, name: str) -> Stage:
    """
    Begin a stage with a substitute for its image: a copy of a minimal Debian.
    """
    suite = next(word for word in re.split(r"[:-]", image) if word in {"bookworm", "trixie", "forky"})
    base(work / "base", suite)
    folder = work / name
    end(folder)
    shutil.rmtree(folder, ignore_errors=True)
    run(["cp", "-a", str(work / "base"), str(folder)])
    stage = Stage(folder, image)
    run(["mount", "-t", "proc", "proc", str(folder / "proc")])
    if "/rust:" in image:
        answer = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
        sysroot = answer.stdout.strip()
        run(["cp", "-a", f"{sysroot}/bin", f"{sysroot}/lib", str(folder / "usr" / "local")])
        run(
            stage.command(["/bin/sh", "-c", "apt-get -qq update && apt-get -qq install --yes gcc libc6-dev >/dev/null"])
        )
    shutil.copy("/etc/resolv.conf", folder / "etc" / "resolv.conf")
    shutil.copy(CERTIFICATES, folder / "etc" / "registries.crt")
    for variable in ("PIP_CERT", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO"):
        stage.environment[variable] = "/etc/registries.crt"
    stage.environment["CARGO_BUILD_JOBS"] = os.environ.get("CARGO_BUILD_JOBS", "2")
    return stage


def context() -> list[str]:
    """
    Return the files of the repository that .dockerignore admits.
    """
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    listing = subprocess.run(["git", "ls-files", *kept], cwd=ROOT, capture_output=True, text=True, check=True)
    return listing.stdout.split()


def copy(stage: Stage, words: list[str], stages: dict[str, Stage]) -> None:
    """
    Carry out a COPY instruction.
    """
    *sources, target = [word for word in words if not word.startswith("--")]
    if words[0].startswith("--from="):
        origin = stages[words[0].removeprefix("--from=")].folder
        run(["cp", "-a", *(f"{origin}{source}" for source in sources), f"{stage.folder}{target}"])
        return
    left = context()
    files = left if sources == ["."] else [name for name in left if name in sources]
    assert files, f"COPY {words} finds nothing: look at .dockerignore"
    into = stage.folder / stage.place.strip("/")
    into.mkdir(parents=True, exist_ok=True)
    run(["cp", "--parents", "--no-dereference", *files, str(into)], cwd=ROOT)


def build(work: Path) -> Stage:
    """
    Carry out all instructions of the Containerfile, and return the last stage.
    """
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for name, rest in instructions():
        print(f"rootfs: {name} {rest[:100]}", flush=True)
        if name == "FROM":
            image, _, title = rest.partition(" AS ")
            stage = stages[title or "image"] = begin(work, image, title or "image")
            continue
        assert stage is not None
        if name == "RUN":
            run(stage.command(["/bin/sh", "-c", rest], user=stage.user))
        elif name == "COPY":
            copy(stage, shlex.split(rest), stages)
        elif name == "ENV":
            stage.environment |= dict(word.split("=", 1) for word in shlex.split(rest))
        elif name == "USER":
            stage.user = rest
        elif name == "WORKDIR":
            stage.place = rest
            (stage.folder / rest.strip("/")).mkdir(parents=True, exist_ok=True)
        else:
            stage.settings[name] = rest
    assert stage is not None
    return stage


def live(stage: Stage) -> None:
    """
    Run the service of the last stage as a container would, test it, and stop it.
    """
    entry = json.loads(stage.settings["ENTRYPOINT"])
    refused = subprocess.run(stage.command(entry, user=stage.user), capture_output=True, text=True, check=False)
    assert refused.returncode != 0, "it started without a token"
    assert "token" in refused.stderr + refused.stdout
    names = " ".join(f"import {name};" for name in EXTRAS)
    run(stage.command(["/venv/bin/python", "-c", f"import os; assert os.getuid(); {names}"], user=stage.user))
    smoke = (ROOT / "scripts" / "smoke.py").read_text("utf-8")
    run(stage.command(["/venv/bin/python", "-P", "-"], user=stage.user), input=smoke, text=True)
    variables = {"TICKWHEEL_WRITE_TOKEN": TOKEN, "TICKWHEEL_TOKEN": TOKEN, "HOME": stage.place}
    service = subprocess.Popen(stage.command(entry, user=stage.user, **variables), stderr=subprocess.DEVNULL)
    try:
        health = json.loads(stage.settings["HEALTHCHECK"].partition("CMD ")[2])
        deadline = time.monotonic() + START_MAX_S
        while subprocess.run(stage.command(health), capture_output=True, check=False).returncode:
            assert service.poll() is None, "the service has ended"
            assert time.monotonic() < deadline, "the service does not answer its health check"
        asked = [*json.loads(stage.settings["ENTRYPOINT"])[:1], "set", "soon", "--delay", "0", "--target", "log"]
        run(stage.command(asked, **{**variables, "TICKWHEEL_STORE": f"http://127.0.0.1:{stage.settings['EXPOSE']}"}))
    finally:
        service.terminate()
    assert service.wait(60) == 0, "it did not end by SIGTERM with exit code 0"
    end(stage.folder)
    size = sum(path.lstat().st_size for path in stage.folder.rglob("*") if not path.is_symlink())
    print(f"rootfs: {stage.folder}: {size / 1e6:.0f} MB, runs as {stage.user}, answers, sets a job and ends cleanly")


def main() -> int:
    """
    Build the root file system in the folder that the command line names, and test it.

    Return 0, or 1 if a tool is missing.
    """
    for tool in ("debootstrap", "chroot", "rustc"):
        if shutil.which(tool) is None or os.getuid():
            print(f"rootfs: needs root and {tool}: apt-get install debootstrap", file=sys.stderr)
            return 1
    work = Path(sys.argv[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    try:
        live(build(work))
    finally:
        for folder in work.iterdir():
            end(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
