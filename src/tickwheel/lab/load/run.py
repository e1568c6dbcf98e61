"""
Runs the stages of a load test as an open loop: it sends requests on schedule, even if earlier ones have no answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from tickwheel.errors import TickwheelError
from tickwheel.lab.load.figures import StageFigures, Tally, lateness_between
from tickwheel.lab.load.stages import LoadStage
from tickwheel.lab.wire import Answer, Client

__all__ = ["LoadError", "LoadResult", "Mix", "run_load"]

OVERTAKEN: Final = frozenset({404, 409})
"""HTTP statuses that answer a move or cancel if the job has fired or is firing."""
DRAIN_S: Final = 10.0
"""Maximum seconds to wait for answers after the last request of a stage. Missing answers count as failures."""
_LOOK_S: Final = 0.25
"""Maximum interval between two calls of `has_enough`, in seconds."""


class LoadError(TickwheelError, RuntimeError):
    """
    The service is unreachable (*status* 0), or refuses access with the HTTP *status*.
    """

    def __init__(self, url: str, answer: Answer) -> None:
        self.status = answer.status
        said = f"answers {answer.status}" if answer.status else answer.body.decode("utf-8", "replace")
        remedy = "start it with 'tickwheel serve', and pass its --token if it wants one"
        super().__init__(f"{url}: {said}: {remedy}")


@dataclass(frozen=True, slots=True)
class Mix:
    """
    The mix of requests.

    *move* and *cancel* are the fractions of requests that move or cancel a job of this run; the other requests set new
    jobs. *due_within_s* is the maximum delay of a job; delays are evenly distributed. The same *seed* makes the same
    requests.
    """

    move: float = 0.25
    cancel: float = 0.25
    due_within_s: float = 20.0
    target: str = "log"
    handler: str = ""
    payload_bytes: int = 100
    seed: int = 1


@dataclass(frozen=True, slots=True)
class LoadResult:
    url: str
    machine: str
    mix: Mix
    stages: list[StageFigures]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


async def run_load(
    client: Client,
    stages: Sequence[LoadStage],
    mix: Mix,
    progress: Callable[[int, str], object],
    *,
    keep: bool = False,
    has_enough: Callable[[], bool] = bool,
) -> LoadResult:
    """
    Run *stages* through an open *client*, and return the measurements.

    *progress* is called about four times per second with the number of scheduled requests since the last call, and a
    text. If *keep* is true, pending jobs remain at the end. *has_enough* is also called about four times per second. If
    it returns True, the run ends: the current stage is measured up to here, and no further stage begins.
    """
    load = _Load(client, mix, progress, has_enough)
    figures: list[StageFigures] = []
    try:
        for stage in stages:
            if not (figures and has_enough()):
                figures.append(await load.stage(stage))
    finally:
        if not keep:
            await load.cancel()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return LoadResult(client.url, machine, mix, figures)


class _Load:
    def __init__(
        self, client: Client, mix: Mix, progress: Callable[[int, str], object], has_enough: Callable[[], bool]
    ) -> None:
        self._client = client
        self._has_enough = has_enough
        self._mix = mix
        self._progress = progress
        self._dice = random.Random(mix.seed)  # noqa: S311 no secret
        self.prefix = f"load-{os.getpid()}-{os.urandom(3).hex()}-"
        self._set = 0
        self._keys: list[str] = []
        kind = {"target": mix.target, "payload": "x" * mix.payload_bytes} | (
            {"handler": mix.handler} if mix.handler else {}
        )
        self._body = json.dumps(kind)[1:]

    async def cancel(self) -> None:
        body = json.dumps({"do": "cancel", "prefix": self.prefix})
        has_more = self._set > 0
        while has_more:
            answer = await self._client.ask("POST", "/v1/jobs:bulk", body)
            has_more = answer.status == HTTPStatus.OK and json.loads(answer.body)["cursor"] is not None

    async def stage(self, stage: LoadStage) -> StageFigures:
        before = await self._stats()
        loop = asyncio.get_running_loop()
        tally = Tally(stage.rate, stage.seconds, loop.time())
        submitted = reported = 0
        while submitted < tally.requests:
            due = min(tally.requests, int((loop.time() - tally.begins_at) * stage.rate) + 1)
            for number in range(submitted, due):
                self._submit(tally, number)
            submitted = due
            if submitted - reported >= stage.rate / 4 or submitted == tally.requests:
                self._progress(submitted - reported, f"{stage}: {submitted - tally.done:,} waiting")
                reported = submitted
            await asyncio.sleep(min(tally.intended(submitted) - loop.time(), _LOOK_S))
            if submitted < tally.requests and self._has_enough():
                tally.cut_off(submitted, loop.time())
        await self._drained(tally)
        fired, late_s = lateness_between(before, await self._stats())
        return tally.figures(fired, late_s)

    def _submit(self, tally: Tally, number: int) -> None:
        draw = self._dice.random()
        delay = round(self._dice.uniform(0, self._mix.due_within_s), 3)
        if self._keys and draw < self._mix.cancel:
            self._ask(tally, number, "DELETE", self._picked(), None)
        elif self._keys and draw < self._mix.cancel + self._mix.move:
            key = self._picked()
            self._keys.append(key)
            self._ask(tally, number, "PATCH", key, f'{{"delay": {delay}}}')
        else:
            self._set += 1
            key = f"{self.prefix}{self._set}"
            self._ask(tally, number, "PUT", key, f'{{"delay": {delay}, {self._body}')

    def _picked(self) -> str:
        # Take a random job that should be pending; the last job of the list takes its place.
        index = self._dice.randrange(len(self._keys))
        self._keys[index], self._keys[-1] = self._keys[-1], self._keys[index]
        return self._keys.pop()

    def _ask(self, tally: Tally, number: int, method: str, key: str, body: str | None) -> None:
        self._client.submit(method, f"/v1/jobs/{key}", body, partial(self._done, tally, number, method, key))

    def _done(self, tally: Tally, number: int, method: str, key: str, answer: Answer) -> None:
        is_overtaken = method != "PUT" and answer.status in OVERTAKEN
        now = asyncio.get_running_loop().time()
        if is_overtaken or 200 <= answer.status < 300:  # noqa: PLR2004 the statuses of success
            tally.answered(number, answer.sent_at, now, is_overtaken=is_overtaken)
            if method == "PUT":
                self._keys.append(key)
        elif answer.status:
            tally.refused(_refusal(answer))
        else:
            tally.unanswered(number, now, answer.body.decode("utf-8", "replace"))

    async def _drained(self, tally: Tally) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await tally.ended.wait()
        if tally.done < tally.requests:
            self._client.give_up()
        assert tally.done == tally.requests, "every request is answered or has failed"

    async def _stats(self) -> dict[str, Any]:
        # Wait twice as long as the service keeps idempotency keys, so that no earlier key is repeated.
        await asyncio.sleep(0.5)
        answer = await self._client.ask("GET", "/v1/stats")
        if answer.status != 200:  # noqa: PLR2004 the status of success
            raise LoadError(self._client.url, answer)
        stats: dict[str, Any] = json.loads(answer.body)
        return stats


def _refusal(answer: Answer) -> str:
    with suppress(ValueError, KeyError, TypeError):  # a proxy may answer anything
        problem = json.loads(answer.body)
        return f"status {answer.status}, {problem['title']}: {problem['remedy']}"
    return f"status {answer.status}"
