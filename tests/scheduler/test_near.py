"""
The table of what is near: every event in every state, and the races it exists for.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tickwheel.scheduler._runtime import Runtime
from tickwheel.scheduler.engine._entry import TABLE, Entry, Phase, Step
from tickwheel.scheduler.engine._near import Near, _step_all
from tickwheel.scheduler.model import Job, Standing, State


def job(key="k", generation=1, due_at=1000):
    """
    Return a pending job.
    """
    return Job(key, generation, due_at)


def counted_job(entry):
    """
    Return the job of *entry* as the store has it once its attempt is counted.
    """
    return replace(entry.job, state=State.RUNNING, attempt=entry.attempt)


def staged(near, *jobs, is_news=True):
    """
    Stage *jobs* and return the new entries.
    """
    return near.stage(jobs, 7, is_news=is_news)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("step", Step)
def test_every_step_in_every_phase(phase, step):
    """
    A step moves an entry as the table says, and where the table says nothing it changes nothing and says so.
    """
    entry = Entry(job(), 7)
    entry.phase = phase
    following = TABLE[step].get(phase)
    assert bool(_step_all([entry], step)) is (following is not None)
    assert entry.phase is (following or phase)


def test_the_whole_life():
    """
    A job goes from near to settled, and nothing of it is left.
    """
    near = Near(Runtime())
    (entry,) = staged(near, job())
    assert near.begin([entry], 10) == ([entry], [])
    near.begun([entry])
    assert near.start(entry)
    assert near.end(entry)
    near.settle([entry])
    near.check()
    assert (near.waiting, near.busy, entry.phase) == (0, 0, Phase.FAR)


@pytest.mark.parametrize("is_counted", [True, False])
def test_withdrawn_before_the_start(is_counted):
    """
    What is withdrawn before its start does not start, whether or not the count has come back from the store.
    """
    near = Near(Runtime())
    (entry,) = staged(near, job())
    near.begin([entry], 1)
    if is_counted:
        near.begun([entry])
    assert near.withdraw(counted_job(entry)) == (entry, Standing.WITHDRAWN)
    assert near.withdraw(counted_job(entry)) == (entry, Standing.WITHDRAWN)
    assert near.begun([entry]) == []
    assert not near.start(entry)
    assert not near.end(entry)
    near.settle([entry])
    near.check()
    assert near.withdraw(counted_job(entry)) is None


def test_started_before_the_withdrawal():
    """
    What has started is not withdrawn, also once it has ended; another attempt of the same generation is not known.
    """
    near = Near(Runtime())
    (entry,) = staged(near, job())
    near.begin([entry], 1)
    near.begun([entry])
    assert near.withdraw(replace(counted_job(entry), attempt=7)) is None
    assert near.is_waiting(entry.job.generation)
    assert near.start(entry)
    assert not near.is_waiting(entry.job.generation)
    assert near.withdraw(counted_job(entry)) == (entry, Standing.STARTED)
    assert entry.phase is Phase.RUNNING
    assert near.end(entry)
    assert near.withdraw(counted_job(entry)) == (entry, Standing.STARTED)


def test_loaded_twice():
    """
    A row that is read again while its job is near, begun or running makes no second entry.
    """
    near = Near(Runtime())
    (entry,) = staged(near, job(), is_news=False)
    assert staged(near, job(), is_news=False) == []
    near.begin([entry], 1)
    assert staged(near, job(), is_news=False) == []
    near.begun([entry])
    near.start(entry)
    assert staged(near, job(), is_news=False) == []
    near.check()


def test_a_stale_row_after_a_move():
    """
    A row read before a move, and arriving after it, does not bring the old generation back.
    """
    near = Near(Runtime())
    (moved,) = staged(near, job(generation=2, due_at=5000))
    assert staged(near, job(generation=1), is_news=False) == []
    assert moved.phase is Phase.NEAR


def test_a_move_after_loading():
    """
    A moved job's old entry can be begun no more.
    """
    near = Near(Runtime())
    (old,) = staged(near, job(generation=1), is_news=False)
    (new,) = staged(near, job(generation=2))
    assert near.begin([old, new], 10) == ([new], [])
    near.check()


def test_set_anew_while_running():
    """
    A new generation waits beside the running one, and both end on their own.
    """
    near = Near(Runtime())
    (first,) = staged(near, job(generation=1))
    near.begin([first], 1)
    near.begun([first])
    near.start(first)
    (second,) = staged(near, job(generation=2))
    near.check()
    assert near.end(first)
    near.settle([first])
    assert near.begin([second], 1) == ([second], [])
    near.check()


def test_another_attempt_replaces_a_stale_row():
    """
    News of the same generation, as a retry makes, replaces a row that was read before.
    """
    near = Near(Runtime())
    (stale,) = staged(near, job(due_at=1000), is_news=False)
    (again,) = staged(near, job(due_at=9000))
    assert stale.phase is Phase.FAR
    assert near.begin([stale, again], 10) == ([again], [])


def test_one_end():
    """
    Of a result and a timeout, the first ends the attempt.
    """
    near = Near(Runtime())
    (entry,) = staged(near, job())
    near.begin([entry], 1)
    near.begun([entry])
    near.start(entry)
    assert near.end(entry)
    assert not near.end(entry)


def test_no_room():
    """
    What there is no room for stays near, in order.
    """
    near = Near(Runtime())
    entries = staged(near, *(job(f"k{n}", n) for n in range(5)))
    begun, held = near.begin(entries, 2)
    assert (begun, held) == (entries[:2], entries[2:])
    assert (near.busy, near.waiting) == (2, 3)
    near.check()


def test_dropped_and_refused():
    """
    A dropped job cannot be begun, and a refused one is forgotten.
    """
    near = Near(Runtime())
    one, two = staged(near, job("one", 1), job("two", 2))
    near.drop(["one", "unknown"])
    assert near.begin([one, two], 10) == ([two], [])
    near.refuse([two])
    assert (near.waiting, near.busy) == (0, 0)


class Store:
    """
    As much of a store as the table leans on: which generation of a key is pending, and the refusal of any other.
    """

    def __init__(self):
        self.pending = {}
        self.generation = 0

    def set(self, key):
        """
        Make a new generation of *key* pending.
        """
        self.generation += 1
        self.pending[key] = job(key, self.generation)
        return self.pending[key]

    def begin(self, one):
        """
        Return whether *one* was pending, which it is no more.
        """
        if self.pending.get(one.key) != one:
            return False
        del self.pending[one.key]
        return True


def withdraw_some(near, dice):
    """
    Withdraw some of what is counted, as the store's answer to a caller would, and return their generations.
    """
    withdrawn = []
    for entry in near.take(Phase.BEGUN, Phase.RUNNING):
        found = near.withdraw(counted_job(entry)) if dice.random() < 0.3 else None
        if found is not None and found[1] is Standing.WITHDRAWN:
            withdrawn.append(entry.job.generation)
            near.settle([entry])
    return withdrawn


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(seed):
    """
    Whatever is set, loaded late, begun, fired and dropped in whatever order, no generation fires twice.
    """
    dice = random.Random(seed)
    near, store = Near(Runtime()), Store()
    entries, written, fired, withdrawn = [], [], [], []
    for _ in range(1500):
        match dice.randrange(8):
            case 0:
                written.append(store.set(f"k{dice.randrange(5)}"))
                entries += staged(near, written[-1])
            case 1 if written:
                entries += staged(near, dice.choice(written[-10:]), is_news=False)
            case 2:
                near.begin(dice.sample(entries, len(entries) // 2), dice.randrange(4))
            case 3:
                beginning = [entry for entry in near.take(Phase.BEGINNING) if dice.random() < 0.8]
                counted = [entry for entry in beginning if store.begin(entry.job)]
                near.begun(counted)
                near.refuse([entry for entry in beginning if entry not in counted])
            case 4:
                fired += [entry.job.generation for entry in near.take(Phase.BEGUN) if near.start(entry)]
            case 5:
                near.settle([entry for entry in near.take(Phase.RUNNING) if near.end(entry)])
            case 6:
                near.drop([f"k{dice.randrange(5)}"])
            case 7:
                withdrawn += withdraw_some(near, dice)
        near.check()
    assert len(fired) > 30
    assert len(withdrawn) > 3
    assert not set(fired) & set(withdrawn)
    assert len(fired) == len(set(fired))
