"""
The table of what is near: every event in every state, and the races it exists for.
"""

from __future__ import annotations

import random

import pytest

from tickwheel.scheduler.engine._near import TABLE, Entry, Event, Near, Stage, _step_all
from tickwheel.scheduler.model import Job


def job(key="k", generation=1, due_at=1000):
    """
    Return a pending job.
    """
    return Job(key, generation, due_at)


def staged(near, *jobs, is_news=True):
    """
    Stage *jobs* and return the new entries.
    """
    return near.stage(jobs, 7, is_news=is_news)


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("event", Event)
def test_every_event_in_every_state(event, stage):
    """
    An event moves an entry as the table says, and where the table says nothing it changes nothing and says so.
    """
    entry = Entry(job(), 7)
    entry.stage = stage
    following = TABLE[event].get(stage)
    assert bool(_step_all([entry], event)) is (following is not None)
    assert entry.stage is (following or stage)


def test_the_whole_life():
    """
    A job goes from near to settled, and nothing of it is left.
    """
    near = Near()
    (entry,) = staged(near, job())
    assert near.begin([entry], 10) == ([entry], [])
    near.begun([entry])
    assert near.fire([entry]) == [entry]
    assert near.end(entry)
    near.settle([entry])
    near.check()
    assert (near.waiting, near.busy, entry.stage) == (0, 0, Stage.FAR)


def test_loaded_twice():
    """
    A row that is read again while its job is near, begun or running makes no second entry.
    """
    near = Near()
    (entry,) = staged(near, job(), is_news=False)
    assert staged(near, job(), is_news=False) == []
    near.begin([entry], 1)
    assert staged(near, job(), is_news=False) == []
    near.begun([entry])
    near.fire([entry])
    assert staged(near, job(), is_news=False) == []
    near.check()


def test_a_stale_row_after_a_move():
    """
    A row read before a move, and arriving after it, does not bring the old generation back.
    """
    near = Near()
    (moved,) = staged(near, job(generation=2, due_at=5000))
    assert staged(near, job(generation=1), is_news=False) == []
    assert moved.stage is Stage.NEAR


def test_a_move_after_loading():
    """
    A moved job's old entry can be begun no more.
    """
    near = Near()
    (old,) = staged(near, job(generation=1), is_news=False)
    (new,) = staged(near, job(generation=2))
    assert near.begin([old, new], 10) == ([new], [])
    near.check()


def test_set_anew_while_running():
    """
    A new generation waits beside the running one, and both end on their own.
    """
    near = Near()
    (first,) = staged(near, job(generation=1))
    near.begin([first], 1)
    near.begun([first])
    near.fire([first])
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
    near = Near()
    (stale,) = staged(near, job(due_at=1000), is_news=False)
    (again,) = staged(near, job(due_at=9000))
    assert stale.stage is Stage.FAR
    assert near.begin([stale, again], 10) == ([again], [])


def test_one_end():
    """
    Of a result and a timeout, the first ends the attempt.
    """
    near = Near()
    (entry,) = staged(near, job())
    near.begin([entry], 1)
    near.begun([entry])
    near.fire([entry])
    assert near.end(entry)
    assert not near.end(entry)


def test_no_room():
    """
    What there is no room for stays near, in order.
    """
    near = Near()
    entries = staged(near, *(job(f"k{n}", n) for n in range(5)))
    begun, held = near.begin(entries, 2)
    assert (begun, held) == (entries[:2], entries[2:])
    assert (near.busy, near.waiting) == (2, 3)
    near.check()


def test_dropped_and_refused():
    """
    A dropped job cannot be begun, and a refused one is forgotten.
    """
    near = Near()
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


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(seed):
    """
    Whatever is set, loaded late, begun, fired and dropped in whatever order, no generation fires twice.
    """
    dice = random.Random(seed)
    near, store = Near(), Store()
    entries, written, fired = [], [], []
    for _ in range(1000):
        match dice.randrange(7):
            case 0:
                written.append(store.set(f"k{dice.randrange(5)}"))
                entries += staged(near, written[-1])
            case 1 if written:
                entries += staged(near, dice.choice(written[-10:]), is_news=False)
            case 2:
                near.begin(dice.sample(entries, len(entries) // 2), dice.randrange(4))
            case 3:
                beginning = [entry for entry in near.take(Stage.BEGINNING) if dice.random() < 0.8]
                counted = [entry for entry in beginning if store.begin(entry.job)]
                near.begun(counted)
                near.refuse([entry for entry in beginning if entry not in counted])
            case 4:
                fired += [entry.job.generation for entry in near.fire(near.take(Stage.BEGUN))]
            case 5:
                near.settle([entry for entry in near.take(Stage.RUNNING) if near.end(entry)])
            case 6:
                near.drop([f"k{dice.randrange(5)}"])
        near.check()
    assert len(fired) > 30
    assert len(fired) == len(set(fired))
