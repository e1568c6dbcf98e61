"""
A free-threaded interpreter loads the native module.

The module declares that it needs the GIL.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

CONFIGURATION = """\
implementation=CPython
version=3.14
shared=true
pointer_width=64
build_flags=Py_GIL_DISABLED
suppress_build_script_link_lines=true
"""


@pytest.mark.slow
def test_the_core_builds_and_says_that_it_uses_the_gil(root, tmp_path):
    """
    The core compiles for a free-threaded interpreter, and declares that it uses the GIL.

    In such a build each `GilCell`, which holds shared state, is a lock. So the state is safe even without the GIL.
    """
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: install Rust")
    configuration = tmp_path / "configuration"
    configuration.write_text(CONFIGURATION, "utf-8")
    answer = subprocess.run(
        ["cargo", "check", "--locked", "--message-format=json", "--package=tickwheel-python"],
        cwd=root,
        env=os.environ
        | {"PYO3_CONFIG_FILE": str(configuration), "CARGO_TARGET_DIR": str(root / "target/free-threaded")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    messages = [json.loads(line) for line in answer.stdout.splitlines()]
    scripts = [message for message in messages if message["reason"] == "build-script-executed"]
    (own,) = (script for script in scripts if "crates/python" in script["package_id"])
    assert "Py_GIL_DISABLED" in own["cfgs"]
    assert [message["message"]["rendered"] for message in messages if message["reason"] == "compiler-message"] == []
    cell = (root / "crates/python/src/cpython/cell.rs").read_text("utf-8")
    locked = cell.partition("#[cfg(Py_GIL_DISABLED)]\nmod by_lock {")[2].partition("\n}\n")[0]
    assert "pub(crate) struct GilCell<T>(Lock<T>);" in locked
    assert "#[cfg(Py_GIL_DISABLED)]\npub(crate) use by_lock::GilCell;" in cell
    module = (root / "crates/python/src/lib.rs").read_text("utf-8")
    assert re.findall(r"^#\[pymodule.*\]$", module, re.MULTILINE) == ["#[pymodule(gil_used = true)]"]
