"""
Files jobs that come within the horizon, or sets them aside for a node that can run them.

Jobs of all processes are checked when they come within the horizon. If this node lacks a job's handler, target or rule,
or its handler does not take the payload, the job leaves its shard in the store, without an attempt; all nodes are
notified, and the first that can run it moves it into a shard of its own. A job that no node can run waits there until a
node that can run it starts, and a paused job until its scope is resumed. If every node can run every job, that costs
one set lookup per job, and one query every other second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tickwheel.engine._armer import Armer
from tickwheel.engine._redater import Redater
from tickwheel.engine._runnable import Runnable
from tickwheel.engine._shard_progress import Position, position_of
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.model import Answer, Job, SetAside

__all__ = ["Staging"]

_PAGE: Final = 1_000
_RETRY_S: Final = 1.0
"""Delay before set-aside jobs, or a missing library, are looked for again."""
_FULL_S: Final = 0.25
"""Delay before jobs of a full lane are looked for again."""
_BEHIND: Final = 4_000
"""Number of jobs on their way to being set aside from which a lane waits."""
_CHUNK: Final = 500
"""Maximum number of jobs set aside in one write, so that callers find room beside them."""


class Staging:
    """
    Files jobs that this node can run, and sets the others aside.

    Args:
        on_more: Called when there are jobs to take up.
        on_room: Called when it has caught up.
    """

    def __init__(
        self,
        resources: Resources,
        staged: StagedJobs,
        armer: Armer,
        runnable: Runnable,
        redater: Redater,
        *,
        on_more: Callable[[], object],
        on_room: Callable[[], object],
    ) -> None:
        self._store = resources.store
        self._writer = resources.writer
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._staged = staged
        self._armer = armer
        self.runnable = runnable
        self._redater = redater
        self._on_more = on_more
        self._on_room = on_room
        self._is_waiting = False
        self._under_way = 0

    def stage(self, by_epoch: Mapping[int, Sequence[Job]], *, is_news: bool) -> list[Job]:
        """
        File the jobs that can run here, by the epochs of their leases; return jobs whose lanes have no room.

        Jobs that are due soon are begun in one commit, in their order, whatever shards they are from. From any thread.
        """
        entries: list[StagedJob] = []
        refused: list[Job] = []
        for epoch, jobs in by_epoch.items():
            new, left = self._staged_of(jobs, epoch, is_news=is_news)
            entries += new
            refused += left
        if len(by_epoch) > 1:
            entries.sort(key=_turn)
        if entries:
            self._armer.add(entries)
        return refused

    def _staged_of(self, jobs: Sequence[Job], epoch: int, *, is_news: bool) -> tuple[list[StagedJob], list[Job]]:
        if lacking := self.runnable.lacking(jobs):
            gone = {job.generation for job in lacking}
            jobs = [job for job in jobs if job.generation not in gone]
            self._staged.drop([job.key for job in lacking])  # an older life of it may be staged
            for start in range(0, len(lacking), _CHUNK):
                self._set_aside(lacking[start : start + _CHUNK], epoch)
        return self._staged.stage(jobs, epoch, is_news=is_news)

    def take_up(
        self,
        epochs: Mapping[int, int],
        place: Callable[[int, Sequence[Job]], object],
    ) -> None:
        """
        Take up jobs that this node can run from those that were set aside, into shards of one partition.

        Args:
            epochs: Epochs by shard number.
            place: Stages jobs that were taken up into a shard, as far as there is room.
        """
        self.runnable.look_once()
        if not self.runnable.look_again():
            self._wait_for_more()
        skills = self.runnable.skills()
        open_to = [
            (target, name)
            for target, name in skills
            if name is None or not self._staged.is_full(self._staged.lanes.of(target, name), is_due=True)
        ]
        if len(open_to) < len(skills):
            self._wait_for_more(_FULL_S)
        for shard, epoch in epochs.items():
            room = min(_PAGE, self._staged.free)
            if room <= 0:
                self._wait_for_more()
                return
            unreadable, unfit = self.runnable.unreadable(), self.runnable.unfit()
            jobs = self._store.take_up(shard, epoch, open_to, room, unreadable=unreadable, unfit=unfit)
            if not jobs:
                return
            place(shard, self._redater.right(jobs, epoch, is_news=False))
            if len(jobs) >= room:
                self._on_more()

    @property
    def is_behind(self) -> bool:
        return self._under_way >= _BEHIND

    def _wait_for_more(self, delay_s: float = _RETRY_S) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            with suppress(ClosedError):
                self._pacer.call_later(delay_s, self._look_again)

    def _look_again(self) -> None:
        self._is_waiting = False
        self._on_more()

    def _set_aside(self, jobs: Sequence[Job], epoch: int) -> None:
        self.runnable.warn(jobs)
        if not self.runnable.is_complete:  # nobody looks regularly into a private store
            self._wait_for_more()
        self._under_way += len(jobs)
        with suppress(ClosedError):  # a stop overtook us: the next owner sees to them
            writes = [SetAside(job, epoch, self.runnable.misfit(job)) for job in jobs]
            self._writer.post(writes, partial(self._done, jobs))

    def _done(self, jobs: Sequence[Job], result: list[Answer] | Exception) -> None:
        """
        Handle refusals; on the writer's thread. The lookout finds jobs whose write the store did not answer.
        """
        was_behind = self.is_behind
        self._under_way -= len(jobs)
        if was_behind and not self.is_behind:
            self._on_room()
        if isinstance(result, Exception):
            self._hooks.failed("setting jobs aside", result)
        elif any(map(self.runnable.can_run, jobs)):  # the handler has come meanwhile, or a pause has ended
            self._on_more()


def _turn(entry: StagedJob) -> Position:
    return position_of(entry.job)
