"""
The CI workflows test and build everything that the package supports, and have only the rights that they need.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
SYSTEMS = {
    "ubuntu": "Operating System :: POSIX :: Linux",
    "macos": "Operating System :: MacOS",
    "windows": "Operating System :: Microsoft :: Windows",
}
pytestmark = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="an sdist has no workflows")


def workflow(name: str) -> dict:
    """
    Return the parsed workflow *name*.
    """
    return yaml.safe_load((WORKFLOWS / name).read_text("utf-8"))


def supported() -> list[str]:
    """
    Return the Python versions in the package's classifiers.
    """
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    return [
        match[1] for line in classifiers if (match := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]


def test_every_supported_python_is_tested_and_released():
    """
    Every Python in the classifiers is tested on Linux (x86-64 and ARM), macOS and Windows.

    A wheel is released for each Python and target.
    """
    matrix = workflow("tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == supported()
    assert {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "windows-2025"} <= set(matrix["system"])
    release = workflow("release.yml")
    assert release["env"]["PYTHONS"].split() == supported()
    targets = release["jobs"]["wheels"]["strategy"]["matrix"]["include"]
    check = next(step["run"] for step in release["jobs"]["check"]["steps"] if "check_wheels" in step.get("run", ""))
    assert f"= {len(targets) * len(supported())}" in check


def test_the_classifiers_name_the_systems_whose_failures_count():
    """
    The classifiers name exactly the operating systems on which a failed test makes the workflow fail.
    """
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    test = workflow("tests.yml")["jobs"]["test"]
    allowed = re.findall(r"startsWith\(matrix\.system, '(\w+)'\)", str(test.get("continue-on-error", "")))
    counting = {one.split("-")[0] for one in test["strategy"]["matrix"]["system"]} - set(allowed)
    assert {line for line in classifiers if line.startswith("Operating System")} == {SYSTEMS[one] for one in counting}


def test_a_release_names_its_addresses():
    """
    Each build of a release first writes the addresses of the release into the README and the project's metadata.
    """
    builders = [
        [step.get("run", "") + step.get("uses", "") for step in job["steps"]]
        for job in workflow("release.yml")["jobs"].values()
        if any("maturin-action" in step.get("uses", "") for step in job.get("steps", ()))
    ]
    assert len(builders) == 2
    for steps in builders:
        before = "".join(steps[: next(place for place, step in enumerate(steps) if "maturin-action" in step)])
        for script in ("pypi_readme.py", "pypi_urls.py"):
            assert f'scripts/{script} "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" "$GITHUB_REF_NAME"' in before


def test_make_and_the_release_build_for_the_same_systems():
    """
    `make wheels` builds for the systems for which a release has wheels.
    """
    targets = {one["target"] for one in workflow("release.yml")["jobs"]["wheels"]["strategy"]["matrix"]["include"]}
    line = re.search(r"^TARGETS \?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert line
    assert set(line[1].split()) == targets


@pytest.mark.parametrize("name", ["nightly.yml", "release.yml", "tests.yml"])
def test_no_secret_and_no_needless_right(name):
    """
    No workflow uses a secret, and all jobs except "publish" have only read access.

    The job "publish" runs after all other jobs, in the environment "pypi".
    """
    text = (WORKFLOWS / name).read_text("utf-8")
    assert "secrets." not in text
    assert "pull_request_target" not in text
    found = workflow(name)
    assert found["permissions"] == {"contents": "read"}
    for title, job in found["jobs"].items():
        if title == "publish":
            assert job["environment"] == "pypi"
            assert set(job["needs"]) == {"tests", "check"}
        else:
            assert set(job.get("permissions", found["permissions"]).values()) == {"read"}
        for step in job.get("steps", ()):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            assert "@" in step.get("uses", "@")


def test_all_tests_run_each_night_and_before_a_release():
    """
    A push runs only the quick tests, and a release runs all tests.

    The nightly run also runs the proofs and the tests with shifted dates.
    """
    assert workflow("nightly.yml")["jobs"]["tests"]["with"] == {"all": True}
    assert workflow("release.yml")["jobs"]["tests"]["with"] == {"all": True}
    calls = workflow("tests.yml")[True]["workflow_call"]  # YAML reads the key "on" as True
    assert calls["inputs"]["all"]["default"] is False
    targets = workflow("nightly.yml")["jobs"]["linux"]["strategy"]["matrix"]["target"]
    assert {"test-full", "test-dates", "prove-long"} <= set(targets)
    made = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(targets) <= made


def test_a_failed_night_names_its_commits(tmp_path):
    """
    If a nightly run fails, its message lists the commits since the last good commit.

    The message also says if no run has ever passed, or if this commit has passed before.
    """

    def git(*arguments):
        person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        return subprocess.run(
            ["git", *person, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    def since(good):
        command = [ROOT / "scripts" / "commits-since", good]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.splitlines()

    git("init", "--quiet")
    commits = []
    for subject in ("first", "second", "third"):
        git("commit", "--quiet", "--allow-empty", "-m", subject)
        commits.append(git("rev-parse", "HEAD").strip())
    assert since(commits[0])[0] == f"::error::failed in {commits[0]}..{commits[2]}"
    assert [line.partition(" ")[2] for line in since(commits[0])[1:]] == ["Ada: third", "Ada: second"]
    assert since("") == [f"::error::failed at {commits[2]}, and no run before it has passed"]
    assert "has passed before" in since(commits[2])[0]
    assert "does not descend" in since("0" * 40)[0]


def test_actionlint_finds_no_fault():
    """
    The linter actionlint finds no fault in the workflows.

    `make lint` installs actionlint if Go is available.
    """
    actionlint = shutil.which("actionlint", path=str(Path(sys.executable).parent)) or shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed: make lint installs it where there is Go")
    answer = subprocess.run([actionlint, "-no-color"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, "")
