"""
The health of owners, derived from the events of a history. A job may wait longer if its owner is not healthy.

An owner is healthy if its node is alive, and is not paused, cut off or on a bad line. After a fault, it counts as
healthy once the node has had the time to renew its lease. From then on, each due job of its shards must begin within
five seconds. This limit does not apply while no healthy owner has the job's handler, or while the job has to wait for
other jobs of its lane.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from simulation._day import LIMITED, RUNNING_MAX, WORKERS
from simulation.history import Committed, Deployed, Ended, Fault, Fired, Freed, Granted, Left, Scoped
from tickwheel.host.options import share_of
from tickwheel.jobs.model import AttemptState, Begin, Contested, Job, Outcome, Set, SetPause, Settle, scope_over

__all__ = ["Health"]

_SILENT_NS: Final = 5 * 10**9
"""Maximum time in ns for which a due job may wait while its owner is healthy."""
_SAMPLED_NS: Final = 22 * 10**9
"""
Maximum time in ns between two samples of the server's clock. A slow clock loses time in between, which delays its jobs.
"""
_AHEAD_NS: Final = 5 * 10**9
"""
Maximum time in ns by which an attempt may be claimed before its due time.
"""

_RECOVERY_NS: Final = 45 * 10**9
"""
Maximum time in ns that an owner needs to recover from a fault.
"""
_TAKEOVER_NS: Final = 85 * 10**9
"""Time from a node's death to a takeover: its leases of 60 s expire, and other nodes check every 20 s."""
# The lease of the dead node may end much too late, until another node shortens it at its own renewal.
_CUT_NS: Final = 105 * 10**9
"""Maximum time in ns from a step of the server's clock until a dead node's shards are taken over."""
_CHANGED: Final = (Outcome.CANCELLED, Outcome.MOVED, Outcome.REPLACED, Outcome.PAUSED)
_EVERYWHERE: Final = ("the", "failover", "emptied")
"""Events that affect all nodes: the end of the day, a failover to another server, and the loss of all data."""


class Health:
    """
    The health of each owner, up to the latest event.
    """

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._well_since: defaultdict[int, int] = defaultdict(int)
        self._handlers: dict[str, tuple[str, ...]] = {}
        self._slow_ppm: dict[str, int] = {}
        """By how many millionths the clock of each node is slower than the server's."""
        self._granted_at: defaultdict[int, int] = defaultdict(int)
        self._broken: defaultdict[str, set[str]] = defaultdict(set)
        self._mended_at: defaultdict[str, int] = defaultdict(int)
        self._busy: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._running: dict[tuple[str, int], str] = {}
        self._under_way: dict[tuple[str, int], tuple[str, str]] = {}
        """The node and handler of each attempt in progress, by key and generation."""
        self._attempts: Counter[tuple[str, str]] = Counter()
        """The number of attempts in progress, by node and handler."""
        self._room_since: dict[tuple[str, str], int] = {}
        """The time from which a node has run fewer attempts of a handler than its share, by node and handler."""
        self._places_since: dict[str, int] = {}
        """The time at which the number of all attempts in progress on a node last fell below the maximum, by node."""
        self._orphans: set[tuple[str, int]] = set()
        self._free_since: dict[str, int] = {}
        self._paused: dict[str, int] = {}
        self._resumed: dict[str, int] = {}
        self._promised: dict[tuple[str, int], tuple[int, str]] = {}

    def judge(self, before: Job, start: int, event: Committed, shard: int) -> Iterator[tuple[str, str]]:
        """
        Yield the kind and text of each violation by the job *before*, which was pending from *start* until *event*.
        """
        name = f"{before.key}/{before.generation}"
        free = self._since(before, shard, event.at)
        free = max(free, self._lane_room_since(before, shard, event.at))
        silent_ns = _SILENT_NS + max(self._slow_ppm.values(), default=0) * _SAMPLED_NS // 1_000_000
        if event.at - max(start, free) > silent_ns:
            yield "silent", f"{name} waited {(event.at - max(start, free)) / 1e9:.1f} s for a healthy owner"
        if not isinstance(event.write, Begin):
            return
        due, owner = self._promised.pop((before.key, before.generation), (0, ""))
        if owner == event.machine == self._owners.get(shard):
            off = event.at - due
            if off < -_AHEAD_NS or event.at - max(due, free) > silent_ns:
                yield "clock", f"{name} began {off / 1e9:+.1f} s from the time that has to elapse"

    def _since(self, job: Job, shard: int, at: int) -> int:
        """
        Return the time since which nothing has prevented a start of *job*, or *at* if something prevents it now.
        """
        if self._busy[job.key].keys() - {job.generation} or self.paused_since(job) is not None:
            return at
        owner = self._owners.get(shard, "")
        if self.still_runs(job, shard):
            return at
        since = at if job.lacks_handler else self._kept_since(shard, at)
        if job.lacks_handler or job.handler not in self._handlers.get(owner, ()):
            able = min((self._kept_since(each, at) for each in self._shards_of(job.handler)), default=at)
            since = able if job.lacks_handler else max(since, able)
        return max(since, self._free_since.get(job.key, 0), self.resumed(job))

    def still_runs(self, job: Job, shard: int) -> bool:
        """
        Return True if the owner of *shard* still runs *job* under an earlier lease, which it has lost.
        """
        owner = self._owners.get(shard)
        return owner is not None and self._running.get((job.key, job.generation)) == owner

    def _lane_room_since(self, job: Job, shard: int, at: int) -> int:
        """
        Return the time since which the owner of *shard* has had room for another attempt in the lane of *job*.

        If it has no room now, return *at*.
        """
        owner = self._owners.get(shard, "")
        attempts = self._attempts[owner, job.handler]
        if attempts >= _share(job.handler) or (attempts and self._is_full(owner)):
            return at
        room_since = self._room_since.get((owner, job.handler), 0)
        # A lane with attempts in progress must also wait while the attempts of all lanes take all places.
        return max(room_since, self._places_since.get(owner, 0)) if attempts else room_since

    def _is_full(self, machine: str) -> bool:
        return sum(count for (each, _), count in self._attempts.items() if each == machine) >= RUNNING_MAX

    def scoped(self, event: Scoped) -> None:
        """
        Record which scopes are paused from now on.
        """
        for scope in self._paused.keys() - set(event.scopes):
            self._resumed[scope] = event.at
        self._paused = {scope: self._paused.get(scope, event.at) for scope in event.scopes}

    def paused_since(self, job: Job) -> int | None:
        """
        Return the time from which a scope of *job* is paused, or None.
        """
        scope = scope_over(job.target, job.handler, self._paused)
        return None if scope is None else self._paused[scope]

    def resumed(self, job: Job) -> int:
        """
        Return the time at which the last pause of a scope of *job* ended.
        """
        return max(self._resumed.get(scope, 0) for scope in ("*", job.target, f"{job.target}:{job.handler}"))

    def is_ignoring(self, job: Job, machine: str, at: int) -> bool:
        """
        Return True if *machine* has had enough time to know that the scope of *job* is paused.
        """
        since = self.paused_since(job)
        owned = [self._well_since[shard] for shard, owner in self._owners.items() if owner == machine]
        if since is None or not owned or self._broken[_node(machine)]:
            return False
        return at - max(since, *owned) > _SILENT_NS

    def is_deaf(self, machine: str, shard: int, at: int) -> bool:
        """
        Return True if *machine* has had enough time to know that *shard* has a different owner.
        """
        owner, node = self._owners.get(shard), _node(machine)
        if owner is None or owner == machine or self._broken[node]:
            return False
        return at - max(self._granted_at[shard], self._mended_at[node], self._mended_at[""]) > _RECOVERY_NS

    def _kept_since(self, shard: int, at: int) -> int:
        owner = self._owners.get(shard)
        return at if owner is None or self._broken[_node(owner)] else self._well_since[shard]

    def _shards_of(self, handler: str) -> list[int]:
        """
        Return the shards of the nodes that have *handler*.
        """
        return [shard for shard, owner in self._owners.items() if handler in self._handlers.get(owner, ())]

    def can_run(self, handler: str) -> bool:
        """
        Return True if some owner has *handler*.
        """
        return bool(self._shards_of(handler))

    def passed_on(self, job: Job, shard: int, at: int) -> None:
        """
        Record that *job* no longer waits in *shard*: it was marked as unroutable there, or claimed into another shard.
        """
        self._free_since[job.key] = self._since(job, shard, at)

    def overlooked(self, job: Job, shard: int, at: int) -> Iterator[tuple[str, str]]:
        """
        Yield a violation if the node that ran *job* died, and a healthy owner has not recovered the job in time.
        """
        waited = at - self._since(job, shard, at)
        if (job.key, job.generation) in self._orphans and waited > _SILENT_NS:
            self._orphans.discard((job.key, job.generation))
            yield "silent", f"{job.key}/{job.generation} was not rescued in {waited / 1e9:.1f} s by a healthy owner"

    def deployed(self, event: Deployed) -> None:
        """
        Record the handlers that a node has from now on.
        """
        self._handlers[event.machine] = event.handlers
        self._slow_ppm[_node(event.machine)] = event.slow_ppm

    def left(self, event: Left) -> None:
        """
        Record that a shard was handed over and its running jobs stay with their former owner.
        """
        self._owners[event.tail] = self._owners[event.shard]
        self._well_since[event.tail] = self._well_since[event.shard]

    def granted(self, event: Granted) -> None:
        """
        Record a new owner of a shard.
        """
        self._owners[event.shard] = event.machine
        self._granted_at[event.shard] = event.at
        self._well_since[event.shard] = max(event.at, self._well_since[event.shard])

    def freed(self, event: Freed) -> None:
        """
        Record that a shard has no owner.
        """
        self._owners.pop(event.shard, None)

    def broken(self, event: Fault) -> None:
        """
        Record that a fault has begun or ended.
        """
        what, _, node = event.what.partition(" ")
        if what == "step":
            self._stepped(event.at, is_server=bool(event.server_step_ns))
            return
        self._mended_at["" if what in _EVERYWHERE else node] = event.at
        if event.is_over:
            self._broken[node].discard(what)
        elif what not in _EVERYWHERE:
            self._broken[node].add(what)
        if what == "kill" and not event.is_over:
            self._bereave(node, event.at)
        if what == "emptied":
            for gone in (
                self._busy,
                self._under_way,
                self._attempts,
                self._promised,
                self._orphans,
                self._free_since,
            ):
                gone.clear()
        for shard, owner in self._owners.items():
            if what in _EVERYWHERE or _node(owner) == node:
                needed = _TAKEOVER_NS if what == "kill" else _RECOVERY_NS
                self._well_since[shard] = max(self._well_since[shard], event.at + needed)

    def _stepped(self, at: int, *, is_server: bool) -> None:
        for shard, since in self._well_since.items():
            needed = (_CUT_NS if since > at else _RECOVERY_NS) if is_server else 0
            self._well_since[shard] = max(since, at + needed)

    def committed(self, event: Committed, shard: int, *, is_of_former_clock: bool) -> None:
        """
        Record a write.

        If *is_of_former_clock* is true, the due time may come from the clock before a step, and is not checked.
        """
        write, job = event.write, event.answer.job
        wanted = write.job.due_at if isinstance(write, Set) and write.clock_step is not None else None
        if (
            job is not None
            and job.due_at == wanted
            and job.recurrence is None
            and job.pause is None
            and self._owners.get(shard) == event.machine
            # the write was in transit during a step, or its node had not noticed the step
            and not is_of_former_clock
        ):
            # a bad line may have delayed the write until after the due time
            due = event.at + max(0, job.due_at - event.store_ms) * 1_000_000
            self._promised[job.key, job.generation] = (due, event.machine)
        if isinstance(write, Begin) and event.answer.outcome is Outcome.BEGUN:
            self._busy[write.job.key][write.job.generation] = event.machine
            self._leave_lane(write.job.key, write.job.generation, event.at)
            lane = (event.machine, write.job.handler)
            self._under_way[write.job.key, write.job.generation] = lane
            self._attempts[lane] += 1
            self._orphans.discard((write.job.key, write.job.generation))
        elif isinstance(write, Settle) and event.answer.outcome is not Outcome.NOT_OWNER:
            self._free(write.job.key, write.job.generation, event.at)
        elif isinstance(write, Contested) and job is not None and event.answer.outcome in _CHANGED:
            if isinstance(write, SetPause):  # the job may be resumed after its due time
                self._promised.pop((job.key, job.generation), None)
            over = write.over
            if over is not None and over.standing is AttemptState.WITHDRAWN:
                self._free(job.key, over.generation, event.at)

    def unheard(self, key: str) -> None:
        """
        Record that the answer to a write of *key* was lost.
        """
        # Without the answer, the owner cannot know by which setting of the clock a delay was counted.
        self._promised = {life: promise for life, promise in self._promised.items() if life[0] != key}

    def fired(self, event: Fired) -> None:
        """
        Record the node on which a job runs.
        """
        self._running[event.key, event.generation] = event.machine

    def ended(self, event: Ended) -> None:
        """
        Record that the engine has reported the end of an attempt.
        """
        self._free(event.key, event.generation, event.at)

    def _free(self, key: str, generation: int, at: int) -> None:
        self._busy[key].pop(generation, None)
        self._running.pop((key, generation), None)
        self._free_since[key] = at
        self._leave_lane(key, generation, at)

    def _leave_lane(self, key: str, generation: int, at: int) -> None:
        lane = self._under_way.pop((key, generation), None)
        if lane is not None:
            if self._is_full(lane[0]):
                self._places_since[lane[0]] = at
            self._attempts[lane] -= 1
            if self._attempts[lane] == _share(lane[1]) - 1:
                self._room_since[lane] = at

    def _bereave(self, node: str, at: int) -> None:
        for key, busy in self._busy.items():
            for generation in [generation for generation, machine in busy.items() if _node(machine) == node]:
                self._orphans.add((key, generation))
                self._free(key, generation, at)


def _share(handler: str) -> int:
    return 1 if handler in LIMITED else share_of(WORKERS)


def _node(machine: str) -> str:
    return machine.partition(".")[0]
