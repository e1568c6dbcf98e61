"""
A chaos run detects that a service breaks a guarantee of tickwheel.

The tests break the service on purpose.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tickwheel.lab.chaos.history import History
from tickwheel.lab.chaos.judge import judge
from tickwheel.lab.chaos.run import ChaosOptions, run_chaos

BROKEN = """
import sys
from tickwheel.cli.chaos_service import main
from tickwheel.targets.webhook import WebhookTarget

post, how, count = WebhookTarget._post, sys.argv[1], 0

async def broken(self, firing):
    global count
    count += 1
    if count % 5 == 0 and how == "swallow":
        return None
    if count % 5 == 0 and how == "twice":
        await post(self, firing)
    return await post(self, firing)

WebhookTarget._post = broken
main(sys.argv[2], int(sys.argv[3]))
"""


@pytest.mark.needs("signal.SIGSTOP")
@pytest.mark.parametrize(("how", "kind"), [("swallow", "lost"), ("twice", "doubled")])
def test_a_broken_service_is_found(tmp_path: Path, monkeypatch, how: str, kind: str) -> None:
    """
    If a service drops or repeats every fifth firing, the chaos run reports lost or repeated jobs.
    """
    monkeypatch.setattr("tickwheel.lab.chaos.run.PATIENCE_S", 3.0)
    (tmp_path / "broken.py").write_text(BROKEN)
    command = (sys.executable, str(tmp_path / "broken.py"), how, "{store}", "{port}")
    store = f"sqlite:///{tmp_path}/jobs.db"
    options = ChaosOptions(command, store, tmp_path, 2.0, 20.0, 1.0, 0.01, 0.0, 1)
    history = History()
    asyncio.run(run_chaos(options, [], lambda *_: None, history))
    verdict = judge(history, 100.0)
    found = {name: len(getattr(verdict, name)) for name in ("lost", "doubled", "early", "unexpected")}
    assert found.pop(kind) > 0
    assert set(found.values()) == {0}
