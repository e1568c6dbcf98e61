"""
The reference page of the API is what the code says.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_current(server):
    """
    docs/api.md is what `make reference` writes, and has a section for every operation of the running service.
    """
    command = [sys.executable, "-P", str(ROOT / "scripts" / "api.py")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert page == answer.stdout, "run make reference"
    document = server.ask("GET", "/openapi.json").json
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"\n### {method.upper()} {path}\n" in page
    for name in document["components"]["schemas"]:
        assert f"\n### {name}\n" in page
