"""
The table of staged jobs: every event in every state, and the races that the table has to handle.
"""

from __future__ import annotations

import random
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock
from unittest.mock import ANY

import pytest

from tickwheel.engine._staged import StagedJobs, _step_all
from tickwheel.engine._staged_job import TRANSITIONS, Phase, StagedJob, Step
from tickwheel.engine._withdrawals import Withdrawals
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.model import AttemptState, Job, State


def job(key="k", generation=1, due_at=1000):
    """
    Return a pending job.
    """
    return Job(key, generation, due_at)


def counted_job(entry):
    """
    Return the job of *entry* as the store returns it after the attempt was counted.
    """
    return replace(entry.job, state=State.RUNNING, attempt=entry.attempt)


def stage(table, *jobs, is_news=True):
    """
    Stage *jobs*, and return the new entries.
    """
    return table.stage(jobs, 7, is_news=is_news)[0]


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("step", Step)
def test_every_event_in_every_state(phase, step):
    """
    An event moves an entry from state to state as the transition table says.

    If the table has no transition, the state of the entry stays the same.
    """
    entry = StagedJob(job(), 7, 0)
    entry.phase = phase
    following = TRANSITIONS[step].get(phase)
    assert bool(_step_all([entry], step)) is (following is not None)
    assert entry.phase is (following or phase)


def test_a_job_goes_through_all_states():
    """
    A job goes through all states from staged to settled, and then leaves the table.
    """
    table = StagedJobs(Runtime())
    (entry,) = stage(table, job())
    assert table.begin([entry], 10) == ([entry], [])
    table.begun([entry])
    assert table.start(entry)
    assert table.end(entry)
    table.settle([entry])
    table.check()
    assert (table.waiting, table.busy, entry.phase) == (0, 0, Phase.FAR)


@pytest.mark.parametrize("is_counted", [True, False])
def test_withdrawn_before_the_start(is_counted):
    """
    If an attempt is withdrawn before its start, it does not start.

    This holds whether or not the claim was answered.
    """
    table = StagedJobs(Runtime())
    (entry,) = stage(table, job())
    table.begin([entry], 1)
    if is_counted:
        table.begun([entry])
    assert table.withdraw(counted_job(entry), is_current=True) == (entry, AttemptState.WITHDRAWN, True)
    assert table.withdraw(counted_job(entry), is_current=False) == (entry, AttemptState.WITHDRAWN, False)
    assert table.begun([entry]) == []
    assert table.doubt([entry]) == []
    assert not table.start(entry)
    assert not table.end(entry)
    table.settle([entry])
    table.check()
    assert table.withdraw(counted_job(entry), is_current=True) is None


@pytest.mark.parametrize("is_doubtful", [False, True])
def test_a_withdrawal_does_not_end_the_next_try(is_doubtful):
    """
    A withdrawal request does not end an attempt whose claim the store has not answered yet.

    Otherwise the job could stay in the state "running" in the store.
    """
    table, completer = StagedJobs(Runtime()), mock.Mock()
    (entry,) = stage(table, job())
    table.begin([entry], 1)
    if is_doubtful:
        assert table.doubt([entry]) == [entry]
        assert table.withdraw(counted_job(entry), is_current=True) is None
    store = mock.Mock(withdrawal_requests=lambda _shards: [counted_job(entry)])
    withdrawals = Withdrawals(
        SimpleNamespace(store=store, pacer=None, hooks=None), table, completer, stop=None, callbacks=None
    )
    withdrawals.poll([0])
    completer.give_back.assert_not_called()
    assert table.begun([entry]) == [entry]
    withdrawals.poll([0])
    (written,) = completer.give_back.call_args_list
    assert written.args[0] is entry


def test_an_attempt_is_released_once():
    """
    However often an attempt is withdrawn before its start, its release is written once.

    A second release would end the job's next attempt, which has the same number.
    """
    table, completer = StagedJobs(Runtime()), mock.Mock()
    (entry,) = stage(table, job())
    table.begin([entry], 1)
    table.begun([entry])
    store = mock.Mock(withdrawal_requests=lambda _shards: [counted_job(entry)])
    resources = SimpleNamespace(store=store, pacer=None, hooks=None)
    withdrawals = Withdrawals(resources, table, completer, stop=None, callbacks=None)
    for _ in range(2):
        withdrawals.poll([0])
        statuses = withdrawals.statuses([counted_job(entry)])
        assert [status.standing for status in statuses] == [AttemptState.WITHDRAWN]
        withdrawals.resolved(statuses, None)
    (written,) = completer.give_back.call_args_list
    assert written.args[0] is entry


def test_started_before_the_withdrawal():
    """
    A started attempt cannot be withdrawn, even after it has ended.

    If the request names an attempt that is not the staged one, `withdraw` returns None.
    """
    table = StagedJobs(Runtime())
    (entry,) = stage(table, job())
    table.begin([entry], 1)
    table.begun([entry])
    assert table.withdraw(replace(counted_job(entry), attempt=7), is_current=True) is None
    assert table.is_waiting(entry.job.generation)
    assert table.start(entry)
    assert not table.is_waiting(entry.job.generation)
    assert table.withdraw(counted_job(entry), is_current=True) == (entry, AttemptState.STARTED, False)
    assert entry.phase is Phase.RUNNING
    assert table.end(entry)
    assert table.withdraw(counted_job(entry), is_current=True) == (entry, AttemptState.STARTED, False)


def test_loaded_twice():
    """
    If the row of a job is read again while the job is staged, claimed or running, the table gets no second entry.
    """
    table = StagedJobs(Runtime())
    (entry,) = stage(table, job(), is_news=False)
    assert stage(table, job(), is_news=False) == []
    table.begin([entry], 1)
    assert stage(table, job(), is_news=False) == []
    table.begun([entry])
    table.start(entry)
    assert stage(table, job(), is_news=False) == []
    table.check()


def test_a_stale_row_after_a_move():
    """
    If a row is read before its job is moved, and staged after that, the old generation is not staged again.
    """
    table = StagedJobs(Runtime())
    (moved,) = stage(table, job(generation=2, due_at=5000))
    assert stage(table, job(generation=1), is_news=False) == []
    assert moved.phase is Phase.STAGED


def test_a_move_after_loading():
    """
    After a move, the old entry of the job can no longer be claimed.
    """
    table = StagedJobs(Runtime())
    (old,) = stage(table, job(generation=1), is_news=False)
    (new,) = stage(table, job(generation=2))
    assert table.begin([old, new], 10) == ([new], [])
    table.check()


def test_a_new_generation_waits_for_the_old_one():
    """
    A new generation of a job waits while the old generation runs.

    Each generation ends separately.
    """
    table = StagedJobs(Runtime())
    (first,) = stage(table, job(generation=1))
    table.begin([first], 1)
    table.begun([first])
    table.start(first)
    (second,) = stage(table, job(generation=2))
    table.check()
    assert table.end(first)
    table.settle([first])
    assert table.begin([second], 1) == ([second], [])
    table.check()


def test_another_attempt_replaces_a_stale_row():
    """
    A newer row of the same generation, for example of a retry, replaces an older row.
    """
    table = StagedJobs(Runtime())
    (stale,) = stage(table, job(due_at=1000), is_news=False)
    (again,) = stage(table, job(due_at=9000))
    assert stale.phase is Phase.FAR
    assert table.begin([stale, again], 10) == ([again], [])


def test_the_first_outcome_counts():
    """
    The first result or timeout ends the attempt.

    A second result or timeout has no effect.
    """
    table = StagedJobs(Runtime())
    (entry,) = stage(table, job())
    table.begin([entry], 1)
    table.begun([entry])
    table.start(entry)
    assert table.end(entry)
    assert not table.end(entry)


def test_no_room():
    """
    If more entries are to be claimed than the limit allows, the rest stay staged, in order.
    """
    table = StagedJobs(Runtime())
    entries = stage(table, *(job(f"k{n}", n) for n in range(5)))
    begun, held = table.begin(entries, 2)
    assert (begun, held) == (entries[:2], entries[2:])
    assert (table.busy, table.waiting) == (2, 3)
    table.check()


def test_dropped_and_refused():
    """
    A job that was dropped from the table cannot be claimed.

    A job whose claim was refused leaves the table.
    """
    table = StagedJobs(Runtime())
    one, two = stage(table, job("one", 1), job("two", 2))
    table.drop(["one", "unknown"])
    assert table.begin([one, two], 10) == ([two], [])
    table.refuse([two])
    assert (table.waiting, table.busy) == (0, 0)


NOW = 5_000


def lane(name, numbers, due_at=NOW + 1, start=0):
    """
    Return *numbers* jobs of the handler *name*, due at *due_at*.

    Their generations are numbered from *start* + 1.
    """
    return [Job(f"{name}/{n}", start + n + 1, due_at, handler=name) for n in range(numbers)]


def small_table(size=100):
    """
    Return a table with room for *size* jobs.
    """
    return StagedJobs(Runtime(), size, lambda: NOW)


MOVING = frozenset({"handler:h0", "handler:h1", "handler:h2"})


@pytest.mark.parametrize(
    ("due_at", "moving", "shares"),
    [
        (NOW + 1, MOVING, [75, 18, 5]),
        (NOW, MOVING, [50, 38, 9]),
        (NOW + 1, frozenset(), [75, 15, 5]),
        (NOW, frozenset(), [50, 30, 10]),
    ],
)
def test_a_share_for_each_lane(due_at, moving, shares):
    """
    Each lane may use only a part of the table's free capacity, so that later lanes can also stage jobs.

    Jobs beyond this part are refused. The part depends on whether the jobs are due, and whether the lanes make
    progress.
    """
    table = small_table()
    table.set_moving(moving)
    for number, share in enumerate(shares):
        jobs = lane(f"h{number}", 100, due_at, start=1_000 * number)
        entries, refused = table.stage(jobs, 7, is_news=bool(number % 2))
        assert [entry.job for entry in entries] == jobs[:share]
        assert refused == jobs[share:]
        assert table.waiting_in(f"handler:h{number}") == share
        assert table.is_full(f"handler:h{number}", is_due=due_at == NOW)
    assert table.free == 100 - sum(shares) > 0
    table.check()


def one_each(count, due_at=NOW, target="pull"):
    """
    Return one job for each of *count* lanes of *target*.
    """
    return [Job(f"{target}/{n}", n + 1, due_at, target=target, handler=f"q{n}") for n in range(count)]


@pytest.mark.parametrize("due_at", [NOW, NOW + 1])
def test_one_share_for_stuck_lanes_of_a_target(due_at):
    """
    Together, lanes of one target that make no progress use at most three quarters of the table of staged jobs.

    Lanes that make progress, and lanes of other targets, can use the rest.
    """
    table = small_table()
    jobs = one_each(200, due_at)
    assert [len(each) for each in table.stage(jobs, 7, is_news=False)] == [75, 125]
    assert table.is_full("pull", is_due=due_at == NOW)
    assert table.is_full("pull:other", is_due=due_at == NOW)
    assert table.crowd_of("pull", "other") == "pull"
    table.set_moving(frozenset({"pull:q150", "pull:q3"}))
    assert table.stage([jobs[150]], 7, is_news=True) == ([ANY], [])
    assert table.stage(lane("h", 5, due_at, start=1_000), 7, is_news=True) == ([ANY] * 5, [])
    assert table.waiting_in("pull") == 74
    table.check()


def test_a_due_job_beside_stalled_lanes_full_of_later_ones():
    table = small_table()
    table.stage(one_each(200, NOW + 1), 7, is_news=False)
    assert table.is_full("pull", is_due=False)
    assert not table.is_full("pull", is_due=True)
    (due,) = one_each(1, NOW)
    assert table.stage([replace(due, key="due", generation=999)], 7, is_news=True) == ([ANY], [])
    table.check()


def test_a_crowd_among_stuck_lanes():
    """
    If one lane fills a large part of the table, the stuck lanes of its target share three quarters of the rest.
    """
    table = small_table(1_000)
    table.stage(lane("h", 1_000), 7, is_news=False)
    others = one_each(300, NOW + 1, "handler")
    staged, refused = table.stage(
        [replace(each, generation=5_000 + n) for n, each in enumerate(others)], 7, is_news=False
    )
    assert table.crowd_of("handler", "h") == "handler:h"
    assert (len(staged), len(refused)) == (187, 113)
    assert table.crowd_of("handler", refused[0].handler) == "handler"
    table.check()


def test_counts_while_lanes_start_and_stop_making_progress():
    """
    The table counts its jobs by lane correctly, even if lanes hang and recover, and entries arrive and leave.
    """
    rng, table = random.Random(3), small_table(60)
    jobs = [replace(each, generation=n + 1, due_at=NOW + n % 2) for n, each in enumerate(one_each(40) * 3)]
    for turn in range(500):
        some = rng.sample(jobs, 20)
        match rng.randrange(5):
            case 0:
                table.set_moving(frozenset(f"pull:q{rng.randrange(40)}" for _ in range(10)))
            case 1:
                table.drop([each.key for each in some])
            case 2:
                begun, _ = table.begin([table.entry_of(each.key) for each in some if table.entry_of(each.key)], 5)
                table.refuse(begun)
            case _:
                table.stage(some, turn, is_news=bool(rng.randrange(2)))
        table.check()


def test_room_for_due_jobs_of_a_lane_full_of_future_jobs():
    """
    A lane that is full of future jobs still accepts due jobs.

    They may use up to three quarters of the table's free capacity.
    """
    table = small_table(1_000)
    later = lane("h", 1_000)
    due = [replace(job, key=f"due/{job.key}") for job in lane("h", 300, NOW, start=2_000)]
    assert len(table.stage(later, 7, is_news=False)[0]) == 750
    assert table.is_full("handler:h", is_due=False)
    assert not table.is_full("handler:h", is_due=True)
    entries, refused = table.stage(due, 7, is_news=True)
    assert ([entry.job for entry in entries], refused) == (due[:188], due[188:])
    assert (table.waiting_in("handler:h"), table.due_in("handler:h")) == (938, 188)
    table.drop([job.key for job in due[:20]])
    assert table.stage(due[188:], 7, is_news=False) == ([ANY] * 20, due[208:])
    table.check()


def test_room_again():
    """
    If a job leaves the table of staged jobs in any way, another job of its lane can be staged.
    """
    table = small_table()
    jobs = lane("h", 100)
    entries, refused = table.stage(jobs, 7, is_news=False)
    table.begin(entries[:5], 5)
    table.drop([job.key for job in jobs[5:10]])
    table.refuse(table.begin(entries[10:15], 5)[0])
    new, refused = table.stage(refused, 7, is_news=False)
    assert (len(new), len(refused)) == (15, 10)
    table.drop_all()
    assert (len(table.stage(jobs[5:], 7, is_news=False)[0]), table.waiting) == (75, 75)
    table.check()


@pytest.mark.parametrize("is_news", [True, False])
def test_an_older_entry_of_a_refused_job(is_news):
    """
    If the table has no room for a newer generation of a job, the job's older entry is removed.

    The older generation is no longer pending.
    """
    table = small_table()
    (old,) = stage(table, Job("k", 1, NOW + 1, handler="small"))
    stage(table, *lane("h", 100, start=10))
    stage(table, *lane("i", 100, start=200))
    newer = Job("k", 1_000, NOW + 2, handler="h")
    assert table.stage([newer], 7, is_news=is_news) == ([], [newer])
    assert old.phase is Phase.FAR
    assert table.begin([old], 1) == ([], [])
    table.check()


def test_threads_stage_at_once():
    """
    If many threads stage jobs of one lane, the lane uses no more than its allowed part of the table.

    No job is refused while this part is not full.
    """
    table, counts = small_table(1_000), []
    barrier = threading.Barrier(8)

    def stage_all(number):
        jobs = lane("h", 500, start=1_000 * number)
        jobs = [replace(job, key=f"{number}/{job.key}") for job in jobs]
        barrier.wait()
        for start in range(0, 500, 10):
            entries, refused = table.stage(jobs[start : start + 10], 7, is_news=bool(number % 2))
            counts.append((len(entries), len(refused)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=stage_all, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert (table.waiting, table.waiting_in("handler:h")) == (750, 750)
    assert (sum(new for new, _ in counts), sum(left for _, left in counts)) == (750, 8 * 500 - 750)
    table.check()


@pytest.mark.parametrize("seed", range(10))
def test_a_new_lane_finds_room(seed):
    """
    While many lanes stage, claim, replace and drop jobs at random, the table still has room for a new lane.
    """
    dice = random.Random(seed)
    table, entries = small_table(dice.randrange(20, 300)), []
    names = [f"h{n}" for n in range(dice.randrange(1, 7))]
    for turn in range(300):
        name, due_at = dice.choice(names), NOW + dice.randrange(-1, 2)
        jobs = [Job(f"{name}/{dice.randrange(500)}", 1_000 * turn + n, due_at, handler=name) for n in range(40)]
        entries += table.stage(jobs, 7, is_news=dice.random() < 0.5)[0]
        match dice.randrange(6):
            case 0:
                begun, _ = table.begin(dice.sample(entries, len(entries) // 8), 50)
                table.refuse(begun)
            case 1:
                table.drop([job.key for job in jobs])
        table.check()
        assert table.free > 0
        assert not table.is_full("handler:other", is_due=True)


class Store:
    """
    A model of the store: each key has one pending generation, and any other generation is refused.
    """

    def __init__(self):
        self.pending = {}
        self.generation = 0

    def set(self, key):
        """
        Make a new generation of *key* pending, and return it.
        """
        self.generation += 1
        self.pending[key] = job(key, self.generation)
        return self.pending[key]

    def begin(self, one):
        """
        Return True if the job *one* was pending, and mark it as no longer pending.
        """
        if self.pending.get(one.key) != one:
            return False
        del self.pending[one.key]
        return True


def withdraw_some(table, dice):
    """
    Withdraw some claimed attempts, as writes of callers do.

    Return their generations.
    """
    withdrawn = []
    for entry in table.take(Phase.BEGUN, Phase.RUNNING):
        found = table.withdraw(counted_job(entry), is_current=True) if dice.random() < 0.3 else None
        if found is not None and found[1] is AttemptState.WITHDRAWN:
            withdrawn.append(entry.job.generation)
            table.settle([entry])
    return withdrawn


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(seed):
    """
    No generation of a job fires twice, in whatever order jobs are set, read late, claimed, fired and dropped.
    """
    dice = random.Random(seed)
    table, store = StagedJobs(Runtime()), Store()
    entries, written, fired, withdrawn = [], [], [], []
    for _ in range(1500):
        match dice.randrange(8):
            case 0:
                written.append(store.set(f"k{dice.randrange(5)}"))
                entries += stage(table, written[-1])
            case 1 if written:
                entries += stage(table, dice.choice(written[-10:]), is_news=False)
            case 2:
                table.begin(dice.sample(entries, len(entries) // 2), dice.randrange(4))
            case 3:
                beginning = [entry for entry in table.take(Phase.BEGINNING) if dice.random() < 0.8]
                counted = [entry for entry in beginning if store.begin(entry.job)]
                table.begun(counted)
                table.refuse([entry for entry in beginning if entry not in counted])
            case 4:
                fired += [entry.job.generation for entry in table.take(Phase.BEGUN) if table.start(entry)]
            case 5:
                table.settle([entry for entry in table.take(Phase.RUNNING) if table.end(entry)])
            case 6:
                table.drop([f"k{dice.randrange(5)}"])
            case 7:
                withdrawn += withdraw_some(table, dice)
        table.check()
    assert len(fired) > 30
    assert len(withdrawn) > 3
    assert not set(fired) & set(withdrawn)
    assert len(fired) == len(set(fired))


def test_the_last_place_is_for_a_due_job():
    """
    A job that is not due yet does not take the last free entry of the table of staged jobs.

    Otherwise a due job of another lane would have to wait.
    """
    table = StagedJobs(Runtime(), 8, lambda: 1_000)
    lanes = [[Job(f"{lane}{n}", 8 * lane + n, 9_000, handler=f"h{lane}") for n in range(8)] for lane in range(1, 5)]
    for jobs in lanes:
        stage(table, *jobs, is_news=False)
    assert (table.free, table.free_for_later) == (1, 0)
    assert table.is_full("handler:healthy", is_due=False)
    (entry,) = stage(table, Job("due", 100, 900, handler="healthy"))
    assert table.begin([entry], 1) == ([entry], [])
    table.check()
