"""
The checker of histories, tested on a good history to which single changes are made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from simulation import History, Plan, check_history, simulate
from simulation._day import QUEUEING, VERSIONED
from simulation._health import Health
from simulation.history import (
    Answered,
    Called,
    Committed,
    Deployed,
    Ended,
    Extended,
    Fault,
    Finished,
    Fired,
    Granted,
    Scoped,
    Taken,
    TakenUp,
)

from tickwheel.jobs.model import (
    Answer,
    AttemptState,
    AttemptStatus,
    Begin,
    Job,
    Outcome,
    Pause,
    Set,
    SetPause,
    Settle,
    Settled,
)

PLAN = Plan(0, hours=2.0, asks=60, breaks=4)


@pytest.fixture(scope="module")
def events():
    """
    Return the events of a good history.
    """
    return tuple(simulate(PLAN).events)


def kinds(events):
    """
    Return the kinds of violation in *events*.
    """
    return {violation.kind for violation in check_history(History(events), PLAN.shards)}


def place(events, kind, condition=bool):
    """
    Return the position of the first event of *kind* for which *condition* is true.
    """
    return next(n for n, event in enumerate(events) if isinstance(event, kind) and condition(event))


def is_write(kind, outcome, **fields):
    """
    Return a condition that is true for commits of a write of this *kind* with this *outcome*.
    """
    return lambda event: (
        isinstance(event.write, kind)
        and event.answer.outcome is outcome
        and all(getattr(event.write, name) == value for name, value in fields.items())
    )


def changed(events, index, event):
    """
    Return *events* with *event* in place of the one at *index*.
    """
    return (*events[:index], event, *events[index + 1 :])


def test_a_good_history_has_no_violation(events):
    """
    The good history, from which all other histories are derived, has no violation.
    """
    assert kinds(events) == set()


def test_a_job_that_was_never_begun_is_lost(events):
    """
    If the begin, the firing and the settle of a job are removed from the history, the job is reported as lost.
    """
    fired = events[place(events, Fired, lambda event: event.attempt == 1 and event.key.startswith("key"))]
    life = (fired.key, fired.generation)

    def is_of_life(event):
        write = getattr(event, "write", None)
        if isinstance(write, (Begin, Settle)):
            return (write.job.key, write.job.generation) == life
        return isinstance(event, (Fired, Ended)) and (event.key, event.generation) == life

    later = [event for event in events if not is_of_life(event) and not _sets_again(event, fired.key, fired.at)]
    assert "lost" in kinds(later)


def _sets_again(event, key, at):
    write = getattr(event, "write", None)
    name = getattr(write, "key", None) or getattr(getattr(write, "job", None), "key", None)
    return name == key and event.at > at


def test_time_promised_by_a_node_without_the_job(events):
    """
    A healthy node is reported if it promises a worker more time for a job whose shard the node does not own.
    """
    index = place(events, Committed, lambda event: event.at > 600 * 10**9 and is_write(Set, Outcome.CREATED)(event))
    job = events[index].answer.job
    promised = Extended(events[index].at, "n9.1", job.key, job.generation, 1)
    assert kinds((*events[: index + 1], promised, *events[index + 1 :])) == {"zombie"}


def test_early(events):
    """
    A firing is reported as early if the store's clock reads a millisecond less than the due time.
    """
    index = place(events, Fired)
    assert "early" in kinds(changed(events, index, replace(events[index], store_ms=events[index].due_at - 1)))


def test_twice(events):
    """
    Two firings with only one counted attempt are reported.
    """
    index = place(events, Fired)
    assert "twice" in kinds((*events[: index + 1], events[index], *events[index + 1 :]))


def test_not_counted(events):
    """
    A firing without a Begin write is reported, because its attempt was not counted.
    """
    index = place(events, Committed, is_write(Begin, Outcome.BEGUN))
    assert "twice" in kinds((*events[:index], *events[index + 1 :]))


def test_zombie(events):
    """
    If a settle with an old epoch takes effect, it is reported as the write of a zombie.

    A zombie is an owner that has lost its lease.
    """
    index = place(events, Committed, is_write(Settle, Outcome.SETTLED))
    commit = events[index]
    assert "zombie" in kinds(changed(events, index, replace(commit, write=replace(commit.write, epoch=-7))))


def test_epoch_that_does_not_grow(events):
    """
    If a shard is granted with an epoch that was used before, this is reported, because it would let a zombie write.
    """
    index = place(events, Granted, lambda event: event.at > 0)
    assert "zombie" in kinds((*events[: index + 1], events[index], *events[index + 1 :]))


def test_repeated(events):
    """
    An epoch that is granted twice is reported. A generation that two jobs get is reported as well.
    """
    index = place(events, Granted, lambda event: event.at > 0)
    assert "repeated" in kinds((*events[: index + 1], events[index], *events[index + 1 :]))
    index = place(events, Committed, is_write(Set, Outcome.CREATED))
    first = events[index].answer.job
    index += 1 + place(events[index + 1 :], Committed, is_write(Set, Outcome.CREATED))
    second = events[index].answer
    again = replace(second, job=replace(second.job, generation=first.generation))
    assert "repeated" in kinds(changed(events, index, replace(events[index], answer=again)))


def test_notes_taken_by_a_zombie(events):
    """
    If notifications are read under an old epoch, a zombie is reported.

    The real owner would miss these notifications.
    """
    taken = Taken(events[-1].at, 0, -7, "n0.1")
    assert "zombie" in kinds((*events, taken))


def test_untruthful_answer(events):
    """
    An answer is reported if it names a generation that no commit has made.
    """
    index = place(events, Answered, lambda event: event.outcome == "created")
    assert "answer" in kinds(changed(events, index, replace(events[index], generation=10**9)))


def test_a_refused_set_that_took_effect(events):
    """
    A write that sets a job is reported if it took effect although its answer was a refusal.
    """
    index = place(events, Answered, lambda event: event.outcome == "created")
    assert "answer" in kinds(changed(events, index, replace(events[index], outcome="refused")))


def test_wrong_answer_of_the_store(events):
    """
    If the store's answer to a write differs from the model's answer, this is reported.
    """
    index = place(events, Committed, is_write(Set, Outcome.CREATED))
    commit = events[index]
    other = replace(commit, answer=Answer(Outcome.REPLACED, commit.answer.job))
    assert "answer" in kinds(changed(events, index, other))


def test_settled_without_running(events):
    """
    A job that is settled without a firing is reported.
    """
    done = {(each.key, each.generation) for each in events if isinstance(each, Ended) and each.kind == "JobSucceeded"}
    fired = Counter((each.key, each.generation) for each in events if isinstance(each, Fired))
    once = {life for life in done if fired[life] == 1}
    index = place(events, Fired, lambda event: (event.key, event.generation) in once)
    assert "ended" in kinds((*events[:index], *events[index + 1 :]))


def test_an_end_that_was_reported_but_not_written(events):
    """
    An end that was reported but never written is a violation.
    """
    index = place(events, Ended, lambda event: event.kind == "JobSucceeded")
    told = replace(events[index], attempt=9)
    assert "ended" in kinds((*events[:index], told, *events[index:]))


@pytest.mark.parametrize("shift_ms", [600_000 * 6, 1, -(10**8)])
def test_series(events, shift_ms):
    """
    The next run of a series is reported if it omits a due time, is between two due times, or goes back in time.
    """

    def has_next(event):
        write = event.write
        return is_write(Settle, Outcome.SETTLED, how=Settled.DONE)(event) and write.due_at is not None

    index = place(events, Committed, has_next)
    commit = events[index]
    moved = replace(commit, write=replace(commit.write, due_at=commit.write.due_at + shift_ms))
    assert "series" in kinds(changed(events, index, moved))


@pytest.mark.parametrize("end", ["", "the process is killed", "the shard is lost"])
def test_a_series_that_dies(events, end):
    """
    A series that ends with a dead job is reported, unless each attempt of its last run was cut off.
    """
    is_next = is_write(Settle, Outcome.SETTLED, how=Settled.DONE)
    index = place(events, Committed, lambda event: is_next(event) and event.write.due_at is not None)
    commit, fired = events[index], events[place(events, Fired)]
    job = commit.write.job
    dead = replace(commit, write=replace(commit.write, how=Settled.DEAD, attempt=job.retry.attempts, due_at=None))
    before = []
    for attempt in range(1, job.retry.attempts + 1):
        machine = f"n{attempt}0.1" if end == "the shard is lost" else f"n9.{attempt}"
        before += [
            Deployed(commit.at, "n8.1", ("long", job.handler)),
            Deployed(commit.at, machine, ("long",)),
            replace(fired, machine=machine, key=job.key, generation=job.generation, attempt=attempt),
        ]
        if end == "the shard is lost":
            begin = Begin(replace(job, attempt=attempt), commit.write.epoch)
            before.append(replace(commit, machine="n8.1", write=begin, answer=Answer(Outcome.BEGUN, begin.job)))
    if end == "the process is killed":
        before.append(Fault(commit.at, "kill n9"))
    found = check_history(History((*events[:index], *before, dead)), PLAN.shards)
    assert any("has died" in violation.what for violation in found) is not bool(end)


def test_late(events):
    """
    A job that waits for minutes in a calm period is reported as late.
    """
    calm = tuple(event for event in events if not isinstance(event, Fault))
    index = place(
        calm,
        Committed,
        lambda event: (
            isinstance(event.write, Begin)
            and not event.write.job.recurrence
            and event.write.job.handler not in (*VERSIONED, *QUEUEING)
        ),
    )
    begin = calm[index]
    minutes = 10**9 * 600
    late = replace(begin, at=begin.at + minutes, store_ms=begin.store_ms + 600_000)
    assert "late" in kinds(changed(calm, index, late))


@pytest.mark.parametrize(("what", "found"), [("step n", True), ("pause n", False), ("failover", False)])
def test_overlapping_runs(events, what, found):
    """
    If a job begins on another node while it still runs, this is reported, unless the first node lost its lease.
    """
    index = place(events, Fired)
    fired = events[index]
    node = fired.machine.partition(".")[0]
    broken = Fault(fired.at, what.replace(" n", f" {node}"))
    elsewhere = replace(fired, machine="n9.1")
    assert ("beside" in kinds((*events[: index + 1], broken, elsewhere, *events[index + 1 :]))) is found


def test_a_run_after_the_end_of_an_attempt(events):
    """
    If a job begins on another node after its attempt on the first node has ended, this is not reported.
    """
    index = place(events, Committed, is_write(Settle, Outcome.SETTLED, how=Settled.AGAIN))
    commit = events[index]
    began = place(events, Fired, lambda event: event.key == commit.write.job.key)
    elsewhere = replace(events[began], machine="n9.1")
    assert began < index
    assert "beside" not in kinds((*events[: index + 1], elsewhere, *events[index + 1 :]))


def test_handler(events):
    """
    A node is reported if it begins or claims a job without having the job's handler.
    """
    nodes = {event.machine: event.handlers for event in events if isinstance(event, Deployed)}

    def other(handler):
        return next(machine for machine, handlers in nodes.items() if handler not in handlers)

    begins = is_write(Begin, Outcome.BEGUN)
    index = place(events, Committed, lambda event: begins(event) and event.write.job.handler in VERSIONED)
    commit = events[index]
    elsewhere = replace(commit, machine=other(commit.write.job.handler))
    assert "handler" in kinds(changed(events, index, elsewhere))
    index = place(events, TakenUp)
    taken = events[index]
    lacking = next(machine for machine, handlers in nodes.items() if handlers != nodes[taken.machine])
    assert "handler" in kinds(changed(events, index, replace(taken, machine=lacking)))


def test_silent_after_a_claim(events):
    """
    If a job begins a minute after a healthy node has claimed it, the job counts as silent.
    """
    calm = tuple(event for event in events if not isinstance(event, Fault))
    index = place(calm, TakenUp)
    taken = calm[index]
    begins = is_write(Begin, Outcome.BEGUN)
    begin = place(calm[index:], Committed, lambda event: begins(event) and event.write.job.key in taken.keys) + index
    commit = calm[begin]
    late = replace(commit, at=max(commit.at, taken.at) + 60 * 10**9, store_ms=commit.store_ms + 60_000)
    assert "silent" in kinds(changed(calm, begin, late))


def test_payload(events):
    """
    A firing with the payload of another generation is reported.
    """
    index = place(events, Fired)
    assert "payload" in kinds(changed(events, index, replace(events[index], payload={"call": -1})))


def test_failed_simulation(events):
    """
    A history with a failed simulation, or without its last event, is reported.
    """
    assert "lost" in kinds((*events, Fault(0, "the simulation failed: x")))
    assert "lost" in kinds([event for event in events if not isinstance(event, Finished)])


def test_calls_are_matched(events):
    """
    If the answer to a call belongs to another request, the answer is reported as untrue.
    """
    index = place(events, Called, lambda event: event.verb == "set")
    assert "answer" in kinds(changed(events, index, replace(events[index], verb="cancel")))


def delayed(events, condition, delay_ns):
    """
    Return *events* with one job that begins, runs and ends later by *delay_ns*.

    *condition* selects the event with which the job begins.
    """
    index = place(events, Committed, lambda event: is_write(Begin, Outcome.BEGUN)(event) and condition(event))
    job = events[index].write.job

    def later(event):
        write = getattr(event, "write", None)
        is_write_of_it = isinstance(write, (Begin, Settle)) and write.job.key == job.key
        if isinstance(event, (Fired, Ended)) and event.key == job.key:
            is_write_of_it = True
        if not is_write_of_it:
            return event
        moved = replace(event, at=event.at + delay_ns)
        return moved if isinstance(event, Ended) else replace(moved, store_ms=event.store_ms + delay_ns // 1_000_000)

    return sorted((later(event) for event in events), key=lambda event: event.at)


@pytest.mark.parametrize(("delay_s", "found"), [(4.0, False), (6.0, True)])
def test_silent(events, delay_s, found):
    """
    A job that a healthy owner begins six seconds late counts as silent.

    Four seconds are allowed.
    """
    faults = [event.at for event in events if isinstance(event, Fault | Granted | Finished)]

    def is_calm(event):
        job = event.write.job
        lives = [each for each in events if isinstance(each, Fired) and each.key == job.key]
        is_alone = len(lives) == 1 and job.handler != "single" and not job.recurrence and "race" not in job.key
        return (
            is_alone and event.store_ms <= job.due_at and all(not -20 <= (event.at - at) / 1e9 <= 60 for at in faults)
        )

    doctored = delayed(events, is_calm, int(delay_s * 1e9))
    assert ("silent" in kinds(doctored)) is found


@pytest.mark.parametrize(("outcome", "above"), [("cancelled", 0), ("moved", 1), ("replaced", 1)])
def test_a_start_after_the_answer_is_overtaken(events, outcome, above):
    """
    A handler is reported if it begins after a caller was answered that its job is cancelled, moved or replaced.
    """
    at = place(events, Fired, lambda event: event.key.startswith("key"))
    fired = events[at]
    asked = Called(fired.at - 2, 10**6, fired.machine, "cancel", fired.key)
    told = Answered(fired.at - 1, 10**6, outcome, fired.generation + above, 0)
    assert "overtaken" in kinds((*events[:at], asked, told, *events[at:]))
    later = replace(told, at=fired.at + 1)
    assert "overtaken" not in kinds((*events[: at + 1], asked, later, *events[at + 1 :]))


def test_a_start_while_it_is_paused_is_overtaken(events):
    """
    A handler is reported if it begins after a caller got the answer that the job is paused.
    """
    at = place(events, Fired, lambda event: event.attempt == 1)
    fired = events[at]
    over = AttemptStatus(fired.generation, fired.due_at, fired.attempt, AttemptState.WITHDRAWN)
    job = next(
        each.write.job
        for each in events
        if isinstance(each, Committed)
        and isinstance(each.write, Begin)
        and (each.write.job.key, each.write.job.generation) == (fired.key, fired.generation)
    )
    paused = Answer(Outcome.PAUSED, replace(job, pause=Pause(fired.store_ms, "me")))
    asked = Called(fired.at - 3, 10**6, fired.machine, "pause", fired.key)
    commit = Committed(fired.at - 2, fired.machine, fired.store_ms, SetPause(fired.key, "me", over=over), paused)
    told = Answered(fired.at - 1, 10**6, "paused", fired.generation, 0)
    assert "overtaken" in kinds((*events[:at], asked, commit, told, *events[at:]))
    assert "overtaken" not in kinds((*events[:at], asked, *events[at:]))


@pytest.mark.parametrize(("seconds", "found"), [(3, False), (30, True)])
def test_a_start_after_all_jobs_were_paused(events, seconds, found):
    """
    If all jobs were paused, a handler that begins half a minute later is reported.

    A handler that begins three seconds later is not reported.
    """
    faults = [event.at for event in events if isinstance(event, Fault | Granted)]
    at = place(events, Fired, lambda event: all(not -60 <= (fault - event.at) / 1e9 <= 100 for fault in faults))
    fired = events[at]
    alone = [event for event in events if not isinstance(event, Scoped)]
    alone += [Scoped(fired.at - seconds * 10**9, ("*",)), Scoped(fired.at + 1, ())]
    assert ("scope" in kinds(sorted(alone, key=lambda event: event.at))) is found


def test_paused_jobs_are_not_claimed(events):
    """
    A node that claims jobs of a paused scope is reported.
    """
    index = place(events, TakenUp)
    paused, resumed = Scoped(events[index].at, ("handler",)), Scoped(events[index].at, ())
    assert "scope" in kinds((*events[:index], paused, events[index], resumed, *events[index + 1 :]))


@pytest.mark.parametrize(("waited_s", "found"), [(4, False), (6, True)])
def test_a_delayed_commit(waited_s, found):
    """
    If a delayed job is committed after its due time, its lateness is measured from the commit.
    """
    health, job = Health(), Job("k", 1, 1_000)
    health._owners[0], health._handlers["n0.1"] = "n0.1", (job.handler,)
    at = 9 * 10**9
    write = Set(replace(job, generation=0), clock_step=0)
    health.committed(Committed(at, "n0.1", 9_000, write, Answer(Outcome.CREATED, job)), 0, is_of_former_clock=False)
    late = at + waited_s * 10**9
    begun = Committed(late, "n0.1", late // 10**6, Begin(job, 1), Answer(Outcome.BEGUN, job))
    kinds = {kind for kind, _ in health.judge(job, late, begun, 0)}
    assert ("clock" in kinds) is found


@pytest.mark.parametrize(("handler", "busy", "found"), [("h", 18, False), ("h", 17, True), ("single", 1, False)])
def test_a_job_waits_for_others_of_its_lane(handler, busy, found):
    """
    A job may wait while other attempts of its lane use the lane's whole share of the workers, 18 of 24.

    If the lane has a limit of one, the job may wait while any other attempt of the lane runs.
    """
    health, s = Health(), 10**9
    health.deployed(Deployed(0, "n0.1", (handler,)))
    health.granted(Granted(0, 0, 1, "n0.1", 0))
    others = [Job(f"other-{n}", n, 0, handler=handler) for n in range(busy)]
    for each in others:
        begun = Committed(s, "n0.1", 1_000, Begin(each, 1), Answer(Outcome.BEGUN, each))
        health.committed(begun, 0, is_of_former_clock=False)
    job, late = Job("k", 100, 0, handler=handler), 20 * s
    begin = Committed(late, "n0.1", 20_000, Begin(job, 1), Answer(Outcome.BEGUN, job))
    assert ("silent" in {kind for kind, _ in health.judge(job, s, begin, 0)}) is found
    health.ended(Ended(late - 6 * s, "n0.1", others[0].key, others[0].generation, 1, "succeeded"))
    assert "silent" in {kind for kind, _ in health.judge(job, s, begin, 0)}


@pytest.mark.parametrize(("slow_ppm", "found"), [(0, True), (50_000, False), (100_000, False)])
def test_a_job_on_a_node_with_a_slow_clock(slow_ppm, found):
    """
    A job that begins six seconds late is not reported if a node's clock was slow by a twentieth or a tenth.
    """
    health, s = Health(), 10**9
    health.deployed(Deployed(0, "n0.1", ("h",), (), slow_ppm))
    health.granted(Granted(0, 0, 1, "n0.1", 0))
    job = Job("k", 1, 0, handler="h")
    begin = Committed(7 * s, "n0.1", 7_000, Begin(job, 1), Answer(Outcome.BEGUN, job))
    assert ("silent" in {kind for kind, _ in health.judge(job, s, begin, 0)}) is found
    late = replace(begin, at=9 * s)
    assert "silent" in {kind for kind, _ in health.judge(job, s, late, 0)}


@pytest.mark.parametrize(("own", "others", "found"), [(1, 199, False), (1, 198, True), (0, 200, True)])
def test_a_job_waits_for_a_node_without_free_places(own, others, found):
    """
    A job may wait while its lane has an attempt in progress, and all lanes together use all 200 places.

    If its lane has no attempt in progress, the waiting job is reported.
    """
    health, s = Health(), 10**9
    health.deployed(Deployed(0, "n0.1", ("long", "wide")))
    health.granted(Granted(0, 0, 1, "n0.1", 0))
    handlers = ["long"] * own + ["wide"] * others
    running = [Job(f"other-{n}", n, 0, handler=handler) for n, handler in enumerate(handlers)]
    for each in running:
        begun = Committed(s, "n0.1", 1_000, Begin(each, 1), Answer(Outcome.BEGUN, each))
        health.committed(begun, 0, is_of_former_clock=False)
    job, late = Job("k", 300, 0, handler="long"), 20 * s
    begin = Committed(late, "n0.1", 20_000, Begin(job, 1), Answer(Outcome.BEGUN, job))
    assert ("silent" in {kind for kind, _ in health.judge(job, s, begin, 0)}) is found
    health.ended(Ended(late - 6 * s, "n0.1", running[-1].key, running[-1].generation, 1, "succeeded"))
    assert "silent" in {kind for kind, _ in health.judge(job, s, begin, 0)}


@pytest.fixture(scope="module")
def behind(events):
    """
    Return a history in which a delay is computed from a clock that is ten minutes slow, and the time of this write.
    """

    def set_back(index):
        return changed(events, index, replace(events[index], store_ms=events[index].store_ms - 600_000))

    is_new = is_write(Set, Outcome.CREATED)
    sets = (n for n, event in enumerate(events) if isinstance(event, Committed) and is_new(event))
    dated = (n for n in sets if events[n].write.counted_from is None)
    index = next(n for n in dated if "clock" in kinds(set_back(n)))
    return set_back(index), events[index].at


@pytest.mark.parametrize(("before_s", "found"), [(None, True), (8, False), (60, True)])
def test_the_former_clock_counts_until_a_renewal(behind, before_s, found):
    """
    If a delay is counted by the clock from before a step of the server's clock, this is reported.

    It is not reported within some seconds after the step.
    """
    doctored, at = behind
    if before_s is not None:
        fault = Fault(at - before_s * 10**9, "step server -600000000000", is_over=True)
        doctored = sorted((*doctored, fault), key=lambda event: event.at)
    assert ("clock" in kinds(doctored)) is found
