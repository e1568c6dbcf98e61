"""
The documentation site's generated pages about the API and the metrics are complete.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def written(name):
    command = [sys.executable, "-P", str(ROOT / "scripts" / f"{name}.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_metrics_are_all_there(server):
    """
    The page of metrics has a row for every metric that a running service exports.
    """
    page = written("metrics")
    shown = re.findall(r"^# TYPE (tickwheel_\w+) (\w+)$", server.ask("GET", "/metrics").body.decode(), re.MULTILINE)
    assert len(shown) > 40
    for name, kind in shown:
        assert f"\n| `{name}` | {kind} |" in page


def test_the_page_is_current(server):
    """
    The page of the HTTP API has a section for every operation of the running service.
    """
    page = written("api")
    document = server.ask("GET", "/openapi.json").json
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"\n### {method.upper()} {path}\n" in page
    for name in document["components"]["schemas"]:
        assert f"\n### {name}\n" in page
