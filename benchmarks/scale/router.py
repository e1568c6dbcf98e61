"""
The prototype of a router: one scheduler over several primaries, each with a core of its own.

Leases, generations and the store's clock belong to one primary, so what is divided is the keys, above the cores, by
`placement.py`. `docs/decisions/many-primaries.md` has the rest: what a map that changes needs, and what is not here.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from benchmarks.scale.placement import Placement
from tickwheel.clock import Clock, MonotonicClock
from tickwheel.observe.events import EventHook
from tickwheel.scheduler import Scheduler, SchedulerOptions, checks
from tickwheel.scheduler._core import Core
from tickwheel.scheduler._runtime import Runtime
from tickwheel.scheduler.engine.recent import FiringRecord
from tickwheel.scheduler.errors import InvalidJobError, UnsupportedError
from tickwheel.scheduler.incidents import LETTERS_MAX, Incidents, incidents_of
from tickwheel.scheduler.model import Answer, HistoryRecord, Job, Page, Pause, Progress
from tickwheel.scheduler.stores import Node, Shard
from tickwheel.scheduler.targets import Firing
from tickwheel.scheduler.targets.pull import JobLease
from tickwheel.scheduler.verbs._backend import Backend
from tickwheel.scheduler.verbs._promise import Reply
from tickwheel.scheduler.verbs.bulk import BulkAnswer, BulkFields, BulkProgress
from tickwheel.scheduler.verbs.change import ChangeFields
from tickwheel.scheduler.verbs.jobs import SetJobs, Verb
from tickwheel.scheduler.verbs.requests import ListFields, SetRequest, check_requests
from tickwheel.typing import Duration, Instant

__all__ = ["RoutedScheduler"]


class RoutedScheduler(Scheduler):
    """
    A scheduler over several stores; otherwise as `Scheduler`. A key stays with one of them.
    """

    def __init__(
        self, *stores: str, options: SchedulerOptions | None = None, clock: Clock | None = None, **more: Any
    ) -> None:
        super().__init__(stores[0], options=options, clock=clock, **more)
        knobs = options or SchedulerOptions()
        first = self._core
        assert isinstance(first, Core)
        others = [Core(url, knobs, {}, Runtime(clock=clock or MonotonicClock())) for url in stores[1:]]
        self._core: Backend = _Router([first, *others])


class _Router:
    """
    The cores of all primaries, as one.
    """

    def __init__(self, cores: Sequence[Core]) -> None:
        self._cores = cores
        place = Placement.even(len(cores)).primary_of
        self.client = _Jobs([core.client for core in cores], place)
        self.pulls = _Pulls([core.pulls for core in cores], place)
        self.handlers: Any = _Handlers([core.handlers for core in cores])

    def __str__(self) -> str:
        return " + ".join(map(str, self._cores))

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]:
        ends = [core.subscribe(hook, routine=routine) for core in self._cores]

        def end() -> None:
            for each in ends:
                each()

        return end

    @property
    def is_firing(self) -> bool:
        return any(core.is_firing for core in self._cores)

    @property
    def is_ready(self) -> bool:
        return all(core.is_ready for core in self._cores)

    def start(self, loop: asyncio.AbstractEventLoop | None, role: str) -> None:
        for core in self._cores:
            core.start(loop, role)

    def is_inside(self) -> bool:
        return any(core.is_inside() for core in self._cores)

    def stop(self, timeout: float | None, *, is_inside: bool) -> list[Firing]:
        return [firing for core in self._cores for firing in core.stop(timeout, is_inside=is_inside)]

    def stats(self) -> dict[str, Any]:
        figures: dict[str, Any] = _summed([core.stats() for core in self._cores])
        return figures

    def nodes(self) -> list[Node]:
        return [node for core in self._cores for node in core.nodes()]

    def recent(self, after: int) -> list[FiringRecord]:
        return [record for core in self._cores for record in core.recent(after)]


class _Jobs:
    """
    The verbs: each goes to the primary of its key, and what is about all jobs to all of them.
    """

    def __init__(self, clients: Sequence[Any], place: Callable[[str], int]) -> None:
        self._clients = clients
        self._place = place

    def _of(self, key: str) -> Any:
        return self._clients[self._place(checks.check_key(key))]

    @property
    def is_stale(self) -> bool:
        return any(client.is_stale for client in self._clients)

    def refresh(self) -> None:
        for client in self._clients:
            client.refresh()

    def now_ms(self) -> int:
        return int(self._clients[0].now_ms())

    def set(self, request: SetRequest) -> Reply[Answer]:
        answer: Reply[Answer] = self._of(request.key).set(request)
        return answer

    def submit(self, verb: Verb) -> Reply[list[Answer]]:
        if isinstance(verb, SetJobs):
            requests = check_requests(verb.requests)
            places = self._divided([checks.check_key(each.key) for each in requests])
            verbs: list[Verb] = [SetJobs([requests[number] for number in part]) for part in places.values()]
        else:
            keys = checks.check_keys(verb.keys)
            places = self._divided(keys)
            verbs = [replace(verb, keys=[keys[number] for number in part]) for part in places.values()]
        replies = [self._clients[place].submit(each) for place, each in zip(places, verbs, strict=True)]
        return replies[0] if len(replies) == 1 else _joined(list(places.values()), replies)

    def _divided(self, keys: Sequence[str]) -> dict[int, list[int]]:
        """
        Return the numbers of *keys* by primary; no keys are of the first one.
        """
        places: dict[int, list[int]] = {} if keys else {0: []}
        for number, key in enumerate(keys):
            places.setdefault(self._place(key), []).append(number)
        return places

    def within(self, connection: object) -> NoReturn:
        what = f"a transaction of {type(connection).__name__} is of one primary"
        raise UnsupportedError(what, "leave conn out, or use a scheduler on that primary")

    def get(self, key: str) -> Job | None:
        found: Job | None = self._of(key).get(key)
        return found

    def history(self, key: str, before: int | None, limit: int) -> Sequence[HistoryRecord]:
        found: Sequence[HistoryRecord] = self._of(key).history(key, before, limit)
        return found

    def change(self, key: str, fields: ChangeFields, if_generation: int | None) -> Answer:
        answer: Answer = self._of(key).change(key, fields, if_generation)
        return answer

    def page(self, fields: ListFields) -> Page:
        """
        Merge a page of each: it ends where the first of them ends that has more to come, at the key that is its cursor.
        """
        pages = [client.page(fields) for client in self._clients]
        cursors = [page.cursor for page in pages if page.cursor is not None]
        end = min(cursors, default=None)
        jobs = sorted((job for page in pages for job in page.jobs), key=lambda job: job.key)
        shown = [job for job in jobs if end is None or job.key <= end]
        limit = fields.get("limit", 100)
        if len(shown) > limit:
            shown, end = shown[:limit], shown[limit - 1].key
        return Page(tuple(shown), end)

    def bulk(self, verb: str, prefix: str, fields: BulkFields, on_progress: BulkProgress | None) -> BulkAnswer:
        """
        Do it on one primary after the other. The cursor has those of all, null for what has ended.
        """
        cursors: list[str | None]
        if (given := fields.get("cursor")) is None:
            cursors = [self._start_of(client) for client in self._clients]
        else:
            cursors = _read_cursors(given, len(self._clients))
        sums, start = [0, 0, 0, 0], json.dumps(cursors)

        def so_far(place: int, part: BulkAnswer) -> BulkAnswer:
            cursors[place] = part.cursor
            counts = (part.matched, part.changed, part.refused, part.stopping)
            matched, changed, refused, stopping = (each + count for each, count in zip(sums, counts, strict=True))
            is_over = all(each is None for each in cursors)
            return BulkAnswer(matched, changed, refused, None if is_over else json.dumps(cursors), start, stopping)

        def report(place: int, part: BulkAnswer) -> None:
            if on_progress is not None:
                on_progress(so_far(place, part))

        answer, limit = BulkAnswer(0, 0, 0, None, start), fields.get("limit")
        if limit is not None:
            checks.check_count("limit", limit, checks.NUMBER_MAX)
        for place, client in enumerate(self._clients):
            cursor, left = cursors[place], None if limit is None else limit - sums[0]
            if cursor is None or left == 0:
                continue
            rest: BulkFields = {**fields, "cursor": cursor, "limit": left}
            answer = so_far(place, client.bulk(verb, prefix, rest, partial(report, place)))
            sums = [answer.matched, answer.changed, answer.refused, answer.stopping]
        return answer

    @staticmethod
    def _start_of(client: Any) -> str:
        client.opened()
        mark, now = client.begun()
        return f"{mark}.{now}/"

    def upcoming(self, due_from: Instant | None, due_until: Instant | None, limit: int) -> Sequence[Job]:
        found = [job for client in self._clients for job in client.upcoming(due_from, due_until, limit)]
        return sorted(found, key=lambda job: job.due_at)[:limit]

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        return [
            sum(each) for each in zip(*(client.forecast(since, step, steps) for client in self._clients), strict=True)
        ]

    def incidents(self, search: str, prefix: str) -> Incidents:
        for client in self._clients:
            client.incidents(search, prefix)  # checks, and opens
        letters = [job for client in self._clients for job in client.store.latest_dead(LETTERS_MAX + 1)]
        letters.sort(key=lambda job: -job.due_at)
        return incidents_of(letters[: LETTERS_MAX + 1], self._clients[0].clock.now_ms(), search=search, prefix=prefix)

    def pause_scope(self, scope: str, note: str, by: str | None) -> Pause:
        pauses: list[Pause] = [client.pause_scope(scope, note, by) for client in self._clients]
        return pauses[0]

    def resume_scope(self, scope: str, by: str | None) -> bool:
        were_paused = [client.resume_scope(scope, by) for client in self._clients]
        return any(were_paused)

    def scopes(self) -> Sequence[Pause]:
        return list({pause.scope: pause for client in self._clients for pause in client.scopes()}.values())

    def shards(self) -> Sequence[Shard]:
        return [shard for client in self._clients for shard in client.shards()]


class _Pulls:
    """
    The verbs of pull workers: a lease is of whichever primary has something first.
    """

    def __init__(self, pulls: Sequence[Any], place: Callable[[str], int]) -> None:
        self._pulls = pulls
        self._place = place
        self._asked: dict[Future[list[JobLease]], list[Future[list[JobLease]]]] = {}

    def lease(self, queue: str, limit: int, wait: Duration, seconds: Duration) -> Future[list[JobLease]]:
        found: Future[list[JobLease]] = Future()
        lock = threading.Lock()
        asked: list[Future[list[JobLease]]] = []

        def take(part: Future[list[JobLease]]) -> None:
            with lock:
                asked.remove(part)
                is_wanted = not found.done() and not part.cancelled()
                if not is_wanted or not (part.result() or not asked):
                    return
                found.set_result(part.result())
                self._asked.pop(found, None)
            for pulls, other in zip(self._pulls, parts, strict=True):
                if other is not part:
                    pulls.abandon(other)

        parts = [pulls.lease(queue, limit, wait, seconds) for pulls in self._pulls]
        asked.extend(parts)
        self._asked[found] = parts
        for part in parts:
            part.add_done_callback(take)
        return found

    def abandon(self, found: Future[list[JobLease]]) -> None:
        for pulls, part in zip(self._pulls, self._asked.pop(found, ()), strict=False):
            pulls.abandon(part)

    def _of(self, fire_id: str) -> Any:
        return self._pulls[self._place(fire_id.rsplit("/", 2)[0])]

    def ack(self, fire_id: str) -> Future[None]:
        done: Future[None] = self._of(fire_id).ack(fire_id)
        return done

    def nack(self, fire_id: str, delay: Duration | None, error: str | None, *, is_dead: bool) -> Future[None]:
        done: Future[None] = self._of(fire_id).nack(fire_id, delay, error, is_dead=is_dead)
        return done

    def extend(self, fire_id: str, seconds: Duration, progress: Progress | None = None) -> Future[int]:
        until: Future[int] = self._of(fire_id).extend(fire_id, seconds, progress)
        return until


class _Handlers:
    """
    The handlers, of which each primary's core has all.
    """

    def __init__(self, handlers: Sequence[Any]) -> None:
        self._handlers = handlers

    def register(self, *args: Any, **limits: Any) -> None:
        for each in self._handlers:
            each.register(*args, **limits)

    def has(self, name: str) -> bool:
        return any(each.has(name) for each in self._handlers)


def _read_cursors(cursor: str, count: int) -> list[str | None]:
    try:
        found = json.loads(cursor)
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != count:
        raise InvalidJobError("cursor", cursor, "pass the cursor that an answer of bulk has")
    return found


def _summed(values: Sequence[Any]) -> Any:
    """
    Return the figures of all primaries as those of one: counts are added, lists follow one another.
    """
    first = values[0]
    if all(type(value) is int for value in values):
        return sum(values)
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _summed([value[name] for value in values if name in value]) for name in names}
    return [each for value in values for each in value] if isinstance(first, list) else first


def _joined(places: Sequence[Sequence[int]], replies: Sequence[Reply[list[Answer]]]) -> Future[list[Answer]]:
    """
    Return what gets the answers of all *replies*, each at its number, or the first error; the others took effect then.
    """
    whole: Future[list[Answer]] = Future()
    answers: dict[int, Answer] = {}
    count = sum(map(len, places))
    lock = threading.Lock()

    def take(numbers: Sequence[int], part: Reply[list[Answer]]) -> None:
        error = part.exception()
        with lock:
            if error is None:
                answers.update(zip(numbers, part.result(), strict=True))
            elif not whole.done():
                whole.set_exception(error)
            if len(answers) == count:
                whole.set_result([answers[number] for number in range(count)])

    for numbers, part in zip(places, replies, strict=True):
        part.add_done_callback(partial(take, numbers))
    return whole
