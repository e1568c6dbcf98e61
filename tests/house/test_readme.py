"""
The README of a release has absolute addresses, because PyPI shows it without the other files of the project.

The metadata of a release has the project's URLs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib

HOME = "https://example.org/us/tickwheel"


def test_addresses_are_absolute(root, tmp_path):
    """
    Each picture and link becomes an absolute address at the tag of the release.

    Each address names a file of the project.
    """
    copy = tmp_path / "README.md"
    shutil.copy(root / "README.md", copy)
    command = [sys.executable, str(root / "scripts" / "pypi_readme.py"), HOME, "v1.2.3", str(copy)]
    subprocess.run(command, check=True, timeout=60)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", copy.read_text("utf-8"))
    assert len(links) > 20
    for picture, address in links:
        kind = "raw" if picture else "blob"
        assert address.startswith(f"{HOME}/{kind}/v1.2.3/")
        assert (root / address.removeprefix(f"{HOME}/{kind}/v1.2.3/").partition("#")[0]).exists(), address


def test_other_addresses_are_left(root, tmp_path):
    """
    Absolute addresses and links inside the page stay as they are.
    """
    copy = tmp_path / "README.md"
    copy.write_text("[a](https://example.org) [b](#figures) [c](docs/x.md#y)\n", "utf-8")
    command = [sys.executable, str(root / "scripts" / "pypi_readme.py"), f"{HOME}/", "v1", str(copy)]
    subprocess.run(command, check=True, timeout=60)
    assert copy.read_text("utf-8") == f"[a](https://example.org) [b](#figures) [c]({HOME}/blob/v1/docs/x.md#y)\n"


def test_the_project_has_its_addresses(root, tmp_path):
    """
    The project's URLs point to the repository from which the project is released.

    They lead to the repository itself, to its issues, and to files or folders at the tag of the release.
    """
    copy = tmp_path / "pyproject.toml"
    text = (root / "pyproject.toml").read_text("utf-8").partition("\n[project.urls]")[0]  # a release's sdist has them
    copy.write_text(text, "utf-8")
    before = tomllib.loads(text)
    command = [sys.executable, str(root / "scripts" / "pypi_urls.py"), f"{HOME}/", "v1.2.3", str(copy)]
    subprocess.run(command, check=True, timeout=60)
    after = tomllib.loads(copy.read_text("utf-8"))
    urls = after["project"].pop("urls")
    assert after == before
    assert urls.pop("Source") == HOME
    assert urls.pop("Issues") == f"{HOME}/issues"
    assert set(urls) == {"Documentation", "Changelog"}
    for address in urls.values():
        kind, tag, path = address.removeprefix(f"{HOME}/").split("/", 2)
        assert (kind, tag) in {("blob", "v1.2.3"), ("tree", "v1.2.3")}
        assert (root / path).exists(), address
