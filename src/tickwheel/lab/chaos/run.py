"""
A chaos run: jobs are set, moved and cancelled over HTTP, and arrive as webhooks, while faults occur.

    caller  ->  service  ->  link  ->  target          arrivals are recorded, and judged at the end
                    |
                    link  ->  store                     if the store is reached over TCP
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tickwheel.lab.chaos.history import Delivery, Fault, History, Outcome, Write
from tickwheel.lab.chaos.judge import owed
from tickwheel.lab.chaos.link import Link
from tickwheel.lab.chaos.plan import FaultError, PlannedFault
from tickwheel.lab.chaos.subject import Subject
from tickwheel.lab.wire import Client, Receiver
from tickwheel.lab.wire import Delivery as Webhook

__all__ = ["ChaosOptions", "run_chaos"]

PATIENCE_S: Final = 60.0
"""Maximum seconds to wait for missing deliveries after the last fault. Only a failure takes that long."""
AGAIN_S: Final = 0.1
CONNECTIONS: Final = 256
"""Number of connections: enough for writes to share a commit, without waiting for a free connection."""
_DONE: Final = range(200, 300)
_REFUSED: Final = frozenset({404, 409})
_UNREACHED: Final = b"cannot be reached"


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """
    The options of a run.

    *command* starts the service; `{store}` and `{port}` in it are replaced. *folder* gets the service's stderr.
    *seconds* is the duration of faults and requests, and *rate* the number of jobs per second. *due_within_s* is the
    maximum delay of jobs. The links have *latency_s*, plus or minus *jitter_s*. The same *seed* makes the same requests
    and faults.
    """

    command: tuple[str, ...]
    store: str
    folder: Path
    seconds: float
    rate: float
    due_within_s: float
    latency_s: float
    jitter_s: float
    seed: int


async def run_chaos(
    options: ChaosOptions, plan: list[PlannedFault], progress: Callable[[float, str], object], history: History
) -> None:
    """
    Run until all deliveries have arrived, at most until `PATIENCE_S` after the last fault.

    *progress* is called at intervals with the seconds since the last call, and a text. *history* receives the events as
    they happen, so that an interrupted run is recorded, too.
    """
    async with AsyncExitStack() as stack:
        await _Run(options, progress, history).run(stack, plan)


class _Run:
    def __init__(self, options: ChaosOptions, progress: Callable[[float, str], object], history: History) -> None:
        self._options = options
        self._progress = progress
        self._dice = random.Random(options.seed)  # noqa: S311 no secret
        self._history = history
        self._is_refusing = False
        self._wall = time.time() - time.monotonic()  # all times use the wall clock as of the start

    async def run(self, stack: AsyncExitStack, plan: list[PlannedFault]) -> None:
        receiver = await stack.enter_async_context(Receiver(self._arrived))
        self._target = await self._link(stack, "127.0.0.1", receiver.port)
        store, self._store = await self._store_link(stack)
        command = [part.replace("{store}", store) for part in self._options.command]
        self._subject = Subject(command, self._options.folder / "service.log")
        stack.push_async_callback(self._subject.kill)  # for an error or Ctrl-C from here on
        await self._subject.start()
        self._client = await stack.enter_async_context(
            Client(self._subject.url, connections=CONNECTIONS, timeout_s=5.0)
        )
        self._gives_up_at = time.monotonic() + self._options.seconds + PATIENCE_S
        async with asyncio.TaskGroup() as group:
            group.create_task(self._jobs(group))
            await self._trouble(plan)
        await self._rest()
        await self._subject.stop()

    async def _link(self, stack: AsyncExitStack, host: str, port: int) -> Link:
        dice = random.Random(self._dice.random())  # noqa: S311 no secret
        options = self._options
        link = Link(host, port, latency_s=options.latency_s, jitter_s=options.jitter_s, dice=dice)
        return await stack.enter_async_context(link)

    async def _store_link(self, stack: AsyncExitStack) -> tuple[str, Link | None]:
        parts = urlsplit(self._options.store)
        if parts.hostname is None:
            return self._options.store, None
        if parts.port is None:
            message = f"{self._options.store!r} names no port: chaos puts itself between, so name host and port"
            raise FaultError(message)
        link = await self._link(stack, parts.hostname, parts.port)
        account, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{account}{at}127.0.0.1:{link.port}").geturl(), link

    def _now(self) -> float:
        return (time.monotonic() + self._wall) * 1e3

    def _arrived(self, webhook: Webhook) -> int:
        key, generation, attempt = unquote(webhook.headers["tickwheel-fire-id"]).rsplit("/", 2)
        due_at, arrived_at = float(webhook.headers["tickwheel-due-at"]), (webhook.began_at + self._wall) * 1e3
        delivery = Delivery(key, int(generation), int(attempt), due_at, arrived_at, not self._is_refusing)
        self._history.deliveries.append(delivery)
        return 503 if self._is_refusing else 200

    async def _jobs(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        begins_at, options = loop.time(), self._options
        for number in range(round(options.seconds * options.rate)):
            await asyncio.sleep(begins_at + number / options.rate - loop.time())
            group.create_task(self._job(f"chaos-{options.seed}-{number}", random.Random(self._dice.random())))  # noqa: S311 no secret

    async def _job(self, key: str, dice: random.Random) -> None:
        # Most jobs are set and fire. Some are moved once or twice; some are cancelled at the end.
        within = self._options.due_within_s
        await self._until_answered(key, "set", dice.uniform(0, within))
        for _ in range(dice.choice((0, 0, 1, 2))):
            await asyncio.sleep(dice.uniform(0, within / 2))
            await self._until_answered(key, "move", dice.uniform(0, within))
        if dice.random() < 0.15:  # noqa: PLR2004 a share
            await asyncio.sleep(dice.uniform(0, within / 2))
            await self._until_answered(key, "cancel", 0.0)

    async def _until_answered(self, key: str, verb: str, delay: float) -> None:
        # Like any client, repeat the request until the answer is unambiguous.
        while True:
            outcome = await self._write(key, verb, delay)
            if outcome is not Outcome.UNKNOWN or time.monotonic() > self._gives_up_at:
                return
            await asyncio.sleep(AGAIN_S)

    async def _write(self, key: str, verb: str, delay: float) -> Outcome:
        method = {"set": "PUT", "move": "PATCH", "cancel": "DELETE"}[verb]
        body = {"move": {"delay": delay}, "set": self._set_body(delay)}.get(verb)
        began_at = self._now()
        answer = await self._client.ask(method, f"/v1/jobs/{key}", None if body is None else json.dumps(body))
        outcome, generation, due_at = Outcome.UNKNOWN, 0, 0.0
        if answer.status in _DONE:
            outcome, job = Outcome.ACKNOWLEDGED, json.loads(answer.body)["job"]
            generation, due_at = job["generation"], datetime.fromisoformat(job["due_at"]).timestamp() * 1e3
        elif answer.status in _REFUSED:
            outcome = Outcome.REFUSED
        elif answer.body == _UNREACHED:
            return outcome  # the request was never sent
        self._history.writes.append(Write(key, verb, began_at, self._now(), outcome, generation, round(due_at)))
        return outcome

    def _set_body(self, delay: float) -> dict[str, object]:
        # Enough attempts to outlive any fault, because a dead letter would be a loss caused by the run itself.
        retry = {"attempts": 1000, "kind": "list", "waits_s": [0.2]}
        handler = f"http://127.0.0.1:{self._target.port}/"
        return {"delay": delay, "target": "webhook", "handler": handler, "payload": "chaos", "retry": retry}

    async def _trouble(self, plan: list[PlannedFault]) -> None:
        for fault in plan:
            await self._sleep(fault.after_s, "well")
            began_at = self._now()
            await self._inflict(fault)
            self._history.faults.append(Fault(fault.kind, began_at, self._now()))
        spent = sum(fault.after_s + fault.for_s for fault in plan)
        await self._sleep(max(self._options.seconds - spent, 0.0), "well")

    async def _inflict(self, fault: PlannedFault) -> None:
        kind, _, where = fault.kind.partition("-")
        link = self._store if where == "store" else self._target
        assert link is not None, "the plan has no fault of a store that has no link"
        if kind == "kill":
            await self._subject.kill()
            await self._subject.start()
        elif kind == "pause":
            self._subject.pause()
            await self._sleep(fault.for_s, fault.kind)
            self._subject.resume()
        elif kind == "errors":
            self._is_refusing = True
            await self._sleep(fault.for_s, fault.kind)
            self._is_refusing = False
        elif kind == "cut":
            await link.cut()
        else:
            link.is_closed = True
            await link.cut()
            await self._sleep(fault.for_s, fault.kind)
            link.is_closed = False

    async def _sleep(self, seconds: float, words: str) -> None:
        await asyncio.sleep(seconds)
        self._progress(seconds, words)

    async def _rest(self) -> None:
        # No fault is left, so owed deliveries must come. Then wait a little longer for unexpected deliveries.
        until = time.monotonic() + PATIENCE_S
        while owed(self._history.writes, self._history.deliveries) and time.monotonic() < until:
            await self._sleep(0.25, "waiting for what is owed")
        await self._sleep(1.0, "waiting for what is not")
