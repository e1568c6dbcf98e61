"""
The installed files have one version. The wheel contains only the package.
"""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
from pathlib import Path

import pytest

import tickwheel
from tickwheel import _core


@pytest.fixture(scope="module")
def distribution() -> importlib.metadata.Distribution:
    """
    Return the installed distribution, if it is a wheel and not a link to the source tree.
    """
    found = importlib.metadata.distribution("tickwheel")
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        pytest.skip("tickwheel is installed editable here: `make test` looks at the wheel")
    return found


def test_one_version(root):
    """
    The installed version equals the version in Cargo.toml.

    No other file contains the version.
    """
    cargo = tomllib.loads((root / "Cargo.toml").read_text("utf-8"))
    assert importlib.metadata.version("tickwheel") == cargo["workspace"]["package"]["version"]
    assert "version" not in tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_installed_wheel_is_tested(distribution, root):
    """
    The tests import the installed package and its native core, not the source tree.
    """
    for module in (tickwheel, _core):
        assert root / "src" not in Path(module.__file__).parents
        assert Path(module.__file__).is_relative_to(Path(distribution.locate_file("")))


def test_the_wheel_holds_the_package_and_nothing_else(distribution, root):
    """
    The wheel has every file of the source tree and one native module.

    It has no test, cache or leftover.
    """
    source = root / "src"
    wanted = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name and not name.endswith(".so")}
    held = {
        str(path) for path in distribution.files if path.parts[0] == "tickwheel" and "__pycache__" not in path.parts
    }
    native = {name for name in held if name.endswith(".so")}
    assert len(native) == 1
    assert held - native == wanted
    assert {"tickwheel/py.typed", "tickwheel/_core.pyi"} <= held


def test_no_dependency_without_an_extra(distribution):
    """
    Installing plain tickwheel installs nothing else.
    """
    assert [line for line in distribution.requires or [] if "extra ==" not in line] == []
