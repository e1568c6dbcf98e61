"""
Each extra installs everything that its target needs to send a message.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tickwheel

ROOT = Path(__file__).parents[3]
TARGETS = {
    "webhook": ("webhook:?allow=127.0.0.1",),
    "redis": ("redis://127.0.0.1:1/0", "rediss://127.0.0.1:1/0"),
    "amqp": ("amqp://127.0.0.1:1/",),
    "nats": ("nats://127.0.0.1:1", "tls://127.0.0.1:1"),
    "kafka": ("kafka://127.0.0.1:1?timeout_s=1",),
    "celery": ("celery+redis://127.0.0.1:1/0", "celery+amqp://127.0.0.1:1//"),
    "rq": ("rq+redis://127.0.0.1:1/0",),
    "dramatiq": ("dramatiq+redis://127.0.0.1:1/0",),
    "taskiq": (),
}
"""The URLs of the targets of each extra. No process listens on the port in these URLs."""
SEND = """
import asyncio, sys

sys.path[:0] = [sys.argv[1]]

from tickwheel.scheduler import Firing, Job, Snooze
from tickwheel.targets import make_target

for url in sys.argv[2:]:
    handler = "http://127.0.0.1:1/" if url.startswith("webhook") else "tasks.note"
    target = make_target(url, has_to_run=True)

    async def send():
        answer = await target.resolve(handler).function(Firing(Job("one", 1, 0, handler=handler), 1, 0.0))
        await target.close()
        return answer

    answer = asyncio.run(send())
    assert isinstance(answer, Snooze), (url, answer)
if len(sys.argv) == 2:
    from taskiq import InMemoryBroker
    from tickwheel.targets.taskiq import TaskiqTarget

    TaskiqTarget(InMemoryBroker()).resolve("tasks:note")
"""


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """
    Run pip with the machine's configuration.
    """
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def extras(tmp_path_factory):
    """
    Return the requirements of each extra, or skip the test if no package index can be reached.
    """
    folder = tmp_path_factory.mktemp("index")
    asked = pip("download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "0", "--dest", str(folder), "idna")
    if asked.returncode:
        pytest.skip(f"no package index can be reached: {asked.stderr.strip().splitlines()[-1]}")
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def test_no_extra_is_left_out():
    """
    Each extra that the table of targets in docs/targets.md names is tested.
    """
    text = (ROOT / "docs" / "targets.md").read_text("utf-8")
    table = text[text.index("| target | made by") : text.index("## For the service")]
    assert set(re.findall(r"\| `([a-z]+)` \|$", table, re.MULTILINE)) == TARGETS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("extra", TARGETS)
def test_an_extra_suffices_for_its_target(extras, extra, tmp_path):
    """
    With only this extra installed, the target tries to send a message.

    The attempt fails only because no process listens on the port.
    """
    installed = pip("install", "--quiet", "--target", str(tmp_path), *extras[extra])
    assert installed.returncode == 0, installed.stderr
    (tmp_path / "tickwheel").symlink_to(Path(tickwheel.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", SEND, str(tmp_path), *TARGETS[extra]]
    sent = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert sent.returncode == 0, sent.stderr
