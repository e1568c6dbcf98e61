"""
The parts of a chaos run: the plan of faults, the link that can be cut, and the process that is disturbed.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tickwheel.lab.chaos.link import Link
from tickwheel.lab.chaos.plan import FAULTS, plan_of
from tickwheel.lab.chaos.subject import Subject, SubjectError
from tickwheel.lab.wire import Client, Receiver


def test_a_plan_follows_from_its_seed() -> None:
    """
    The same seed gives the same faults, and a different seed gives different faults.

    Each kind of fault occurs once before any kind is repeated.
    """
    kinds = tuple(FAULTS)
    plan = plan_of(5, 300, kinds, 2.0)
    assert plan == plan_of(5, 300, kinds, 2.0) != plan_of(6, 300, kinds, 2.0)
    assert Counter(fault.kind for fault in plan[: 2 * len(kinds)]) == dict.fromkeys(kinds, 2)
    assert 280 < sum(fault.after_s + fault.for_s for fault in plan) <= 300
    assert all(1.0 <= fault.after_s <= 3.0 for fault in plan)
    assert all(FAULTS[fault.kind][0] <= fault.for_s <= FAULTS[fault.kind][1] for fault in plan)


def link_to(port: int, latency_s: float = 0.0, jitter_s: float = 0.0) -> Link:
    return Link("127.0.0.1", port, latency_s=latency_s, jitter_s=jitter_s, dice=random.Random(1))


def test_a_slow_link_delays_and_keeps_the_order() -> None:
    """
    Data that is sent over a slow link arrives complete and in order.

    It never arrives before the latency of the link has passed.
    """
    bodies: list[bytes] = []

    async def talk() -> None:
        loop = asyncio.get_running_loop()
        async with (
            Receiver(lambda delivery: bodies.append(delivery.body) or 200) as receiver,
            link_to(receiver.port, 0.05, 0.02) as link,
            Client(f"http://127.0.0.1:{link.port}", connections=1) as client,
        ):
            large = "x" * 300_000
            began = loop.time()
            answers = [await client.ask("POST", "/", body) for body in ("a", "b", large)]
            assert loop.time() - began >= 3 * 0.03
            assert [answer.status for answer in answers] == [200, 200, 200]
            assert bodies == [b"a", b"b", large.encode()]

    asyncio.run(talk())


def test_a_link_is_cut_and_closed() -> None:
    """
    A cut ends all open connections of a link. A closed link accepts no connection.
    """

    async def talk() -> None:
        async with (
            Receiver(lambda _: 200) as receiver,
            link_to(receiver.port, 10.0) as link,
            Client(f"http://127.0.0.1:{link.port}") as client,
        ):
            waiting = asyncio.create_task(client.ask("GET", "/"))
            for _ in range(10_000):
                if await link.cut():
                    break
                await asyncio.sleep(0)  # repeated until the link has connected
            assert (await waiting).body == b"the connection broke"
        async with (
            Receiver(lambda _: 200) as receiver,
            link_to(receiver.port) as link,
            Client(f"http://127.0.0.1:{link.port}") as client,
        ):
            link.is_closed = True
            assert (await client.ask("GET", "/")).status == 0
            link.is_closed = False
            assert (await client.ask("GET", "/")).status == 200

    asyncio.run(talk())


@pytest.mark.needs("signal.SIGSTOP")
def test_a_service_that_does_not_come_up(tmp_path: Path) -> None:
    """
    If a service ends before it accepts requests, the error shows the last output of the service.
    """
    subject = Subject([sys.executable, "-c", "raise SystemExit('no disk, port {port}')"], tmp_path / "log")
    with pytest.raises(SubjectError, match="did not come up: no disk, port 0"):
        asyncio.run(subject.start())


@pytest.mark.needs("signal.SIGSTOP")
def test_a_service_that_ends_badly(tmp_path: Path) -> None:
    """
    If a service ends with an error after SIGTERM, this is reported. A killed service can be started again.
    """
    script = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "print(f'page  http://127.0.0.1:{sys.argv[1] if sys.argv[1] != \"0\" else 4711}/', flush=True)\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "sys.exit(3)\n"
    )

    async def live() -> None:
        subject = Subject([sys.executable, "-c", script, "{port}"], tmp_path / "log")
        await subject.start()
        await subject.kill()
        await subject.start()
        assert subject.url == "http://127.0.0.1:4711"
        with pytest.raises(SubjectError, match="ended with 3 after SIGTERM"):
            await subject.stop()

    asyncio.run(live())
