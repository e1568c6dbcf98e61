"""
The requests and faults of a simulated day, drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simulation._equipment import TARGET, ZONE
from tickwheel.jobs.model import Answer
from tickwheel.jobs.recurrence import Overlap
from tickwheel.scheduler import RetryPolicy, Scheduler, SetRequest

__all__ = [
    "EQUIPPED",
    "FROM_AFAR",
    "LIMITED",
    "LONG_EACH_S",
    "LOSS",
    "QUEUE",
    "QUEUEING",
    "RUNNING_MAX",
    "VERSIONED",
    "WORKERS",
    "Ask",
    "Break",
    "asks",
    "breaks",
    "crowd",
    "equipped",
    "from_afar",
    "full_lanes",
    "hangs",
    "needed_by",
    "overlaps",
    "pauses",
    "pulls",
    "races",
    "scopes",
    "series",
    "server_steps",
    "steers",
    "storms",
    "versions",
]

RETRY: Final = RetryPolicy(attempts=4, base_ms=5_000)
_PLANS: Final[list[list[str]]] = [[]] * 14 + [
    ["fail"],
    ["fail", "fail"],
    ["retry"],
    ["snooze"],
    ["cancel"],
    ["fail"] * 4,
    ["snooze", "fail"],
]
QUEUE: Final = "scans"
"""Name of the queue from which workers pull."""
LIMITED: Final = ("single", "hung", "slow", "wide")
"""
Handlers whose jobs may have to wait until no other job of their lane is in progress.
"""
QUEUEING: Final = (*LIMITED, QUEUE)
"""The handlers and the queue with jobs that may have to wait for each other."""
WORKERS: Final = 24
"""Number of jobs that a node runs at a time."""
RUNNING_MAX: Final = 200
"""Maximum number of jobs that a node may have begun and not settled."""
LONG_EACH_S: Final = 600
"""Seconds between the due times of a recurring job. Every third run lasts longer."""
VERSIONED: Final = ("first", "second")
"""Two handlers. Each node has one of them."""
EQUIPPED: Final = "equipped/"
"""
Prefix of the keys of jobs that need equipment.

The name of the equipment follows.
"""
LOSS: Final = "loss "
"""Prefix of the names of the faults that take equipment from a node."""
_FIRST_TEN_S: Final = 400.0
"""Seconds from the beginning of the day until its clock first shows a multiple of ten minutes."""
FROM_AFAR: Final = "afar/"
"""Prefix of the keys that are set by a process without handlers."""
HERD: Final = 220
"""Number of hanging jobs in a burst, which is more than one node may run at a time."""
_CROWDED: Final = (16, 10)
"""Period in days, and the day of each period on which many callers request the same jobs."""
_SCOPES: Final = (
    "handler:work",
    "handler:work",
    "handler:first",
    "handler:second",
    "handler:impatient",
    "handler",
    "*",
)
"""The scopes that are paused for a while."""
_HERD_S: Final = 1_800.0
_SERVER_STEPS: Final = 0.5
"""Probability that the server's clock is set after a node's death."""
_BESIDE: Final = 10
"""Number of jobs of a second handler during a burst of hanging jobs."""
_DEAD_S: Final = 200.0
"""Seconds for which a node that is killed during a burst stays dead."""
_HANDLERS: Final = ("work",) * 6 + ("impatient", "single")


@dataclass(frozen=True, slots=True)
class Ask:
    """
    A request of a caller, and its time in seconds since the beginning of the day.
    """

    at: float
    verb: str
    key: str
    call: Callable[[Scheduler, int], Answer]


@dataclass(frozen=True, slots=True)
class Break:
    """
    A fault, and its duration in seconds.

    If no node is given, a node is chosen at random when the fault happens.
    """

    at: float
    what: str
    length: float
    amount: float = 0.0


def asks(dice: random.Random, length: float, count: int) -> list[Ask]:
    """
    Return *count* requests over *length* seconds, in order. Most are for jobs that are due soon.
    """
    found: list[Ask] = []
    keys = [f"key-{number}" for number in range(max(8, count // 8))]
    while len(found) < count:
        at = dice.uniform(1.0, length)
        for _ in range(dice.choice((1, 1, 1, 1, 2, 5, 20))):
            found.append(_ask(dice, at, dice.choice(keys)))
            at += dice.choice((0.0, 0.0, 0.001, 0.1))
    return sorted(found, key=lambda each: each.at)


def from_afar(dice: random.Random, length: float, count: int) -> list[Ask]:
    """
    Return *count* requests of a process that sets jobs and fires none. It makes long pauses between its requests.
    """
    found: list[Ask] = []
    for number in range(count):
        key, delay = f"{FROM_AFAR}{number}", dice.choice((0.5, 5.0, 60.0)) * dice.random()
        found.append(Ask(dice.uniform(1.0, length), "set", key, _setter(key, [], asked=delay, delay=delay)))
    return found


def storms(dice: random.Random, breaks: list[Break]) -> list[Ask]:
    """
    Return requests for jobs that are due or running during a fault.
    """
    found: list[Ask] = []
    for each in breaks:
        for _ in range(dice.choice((10, 30) if each.what == "weather" else (0, 3, 8))):
            at = max(1.0, each.at + dice.uniform(-40.0, min(each.length, 200.0)))
            key = f"storm-{dice.randrange(40)}"
            takes = dice.choice((0.0, 2.0, 30.0, 100.0))
            call = _setter(key, dice.choice(_PLANS), takes, delay=dice.choice((0.0, 1.0, 12.0, 60.0)) * dice.random())
            found.append(Ask(at, "set", key, call))
            if dice.random() < 0.2:
                found.append(Ask(at + dice.uniform(0.0, 60.0), "stop", key, _stopper(key)))
    return found


def pulls(seed: int, broken: Sequence[Break]) -> list[Ask]:
    """
    Return requests for jobs that workers pull. Most of the jobs are in progress during a fault.
    """
    dice = random.Random(seed)
    found: list[Ask] = []
    for each in broken:
        for _ in range(4):
            at, key = max(1.0, each.at - dice.uniform(-20.0, 60.0)), f"pull-{dice.randrange(20)}"
            plan = dice.choice(([], [], [], ["fail"], ["retry", "fail"], ["hang"], ["cancel"]))
            takes, delay = dice.choice((0.0, 20.0, 300.0, 600.0)), dice.choice((0.0, 3.0))
            found.append(Ask(at, "set", key, _setter(key, plan, takes, QUEUE, target="pull", delay=delay)))
            if dice.random() < 0.2:
                at += dice.uniform(0.0, 300.0)
                found.append(Ask(at, *dice.choice((("stop", key, _stopper(key)), ("cancel", key, _canceller(key))))))
    return found


def races(dice: random.Random, length: float, count: int, broken: list[Break]) -> list[Ask]:
    """
    Return requests for bursts of more jobs than there are workers, and for changes of these jobs near their due times.
    """
    found: list[Ask] = []
    weather = [each for each in broken if each.what == "weather"]
    for race in range(count):
        at, delay = dice.uniform(1.0, length * 0.95), dice.choice((1.0, 3.0))
        if weather and race == count - 1:
            bad = dice.choice(weather)
            at = bad.at + dice.uniform(0.0, bad.length)
        takes = dice.choice((0.0, 2.0))
        for number in range(100):
            key = f"race-{race}-{number}"
            found.append(Ask(at, "set", key, _setter(key, [], takes, delay=delay)))
            for _ in range(dice.choice((0, 0, 1, 1, 2))):  # if there are two, the callers do not know of each other
                verb = dice.choice(("cancel", "move", "set", "pause"))
                change = {
                    "cancel": _canceller(key),
                    "move": _mover(key, 60.0),
                    "set": _setter(key, [], 0.0, delay=60.0),
                    "pause": _pauser(key),
                }[verb]
                found.append(Ask(at + delay + dice.choice((-0.03, 0.0, 0.003, 0.2, 0.6)), verb, key, change))
    return found


def crowd(seed: int, length: float) -> list[Ask | Break]:
    """
    Return requests for a burst of jobs on a bad line, several requests for each job.

    This checks that each attempt is withdrawn only once. Only few days have such a burst.
    """
    each, first = _CROWDED
    if seed % each != first:
        return []
    dice = random.Random(seed)
    start = dice.uniform(0.1, 0.9) * length
    found: list[Ask | Break] = [Break(start + 2.0, "foul", 20.0)]
    for number in range(HERD):
        key = f"crowd-{number}"
        found.append(Ask(start, "set", key, _setter(key, [], takes=4.0, delay=2.0)))
        for _ in range(3):
            # This withdraws the claimed attempt, which is then claimed again under the same number.
            # On the bad line, a late repeat of the withdrawal must not end the new claim.
            keep = _setter(key, [], delay=60.0, mode="keep")
            found.append(Ask(start + dice.uniform(2.0, 6.0), "set", key, keep))
        found.append(Ask(start + dice.uniform(3.0, 12.0), "cancel", key, _canceller(key)))
    return found


def hangs(dice: random.Random, length: float, others: list[Ask], broken: list[Break]) -> list[Ask]:
    """
    Return requests for a burst of hanging jobs, and for other jobs that do not hang.

    A day that lasts only some minutes has no burst.
    """
    start = _calm_from(dice, length, others, broken)
    return [] if start is None else _herd(start, "hung", HERD)


def full_lanes(seed: int, length: float, others: list[Ask], broken: list[Break], *, nodes: int) -> list[Ask | Break]:
    """
    Return requests that fill lanes with more jobs than *nodes* have room for, and requests for other lanes.

    A node is killed while many jobs of one lane wait. The jobs of a second lane hang, and occupy all workers.
    """
    dice = random.Random(seed)
    found: list[Ask | Break] = []
    start = _calm_from(dice, length, others, broken)
    if start is not None:
        found.append(Break(start + 5.0, "kill", _DEAD_S))
        for number in range(HERD * nodes):
            key = f"slow-{number}"
            found.append(Ask(start, "set", key, _setter(key, [], 2.0, "slow", delay=1.0)))
        found += _beside(start, int(_DEAD_S))
    start = _calm_from(dice, length, [each for each in [*others, *found] if isinstance(each, Ask)], broken)
    if start is not None:
        found += _herd(start, "wide", HERD * nodes)
    return found


def _calm_from(dice: random.Random, length: float, others: list[Ask], broken: list[Break]) -> float | None:
    """
    Return the beginning of some minutes without faults and without bursts among *others*, or None.
    """
    if length < _HERD_S:
        return None
    busy = [each.at for each in others if each.key.startswith(("race-", "hung-", "slow-", "beside-"))]
    busy += [at for each in broken for at in (each.at, each.at + each.length)]
    for _ in range(100):
        start = dice.uniform(300.0, length * 0.9)
        if not any(start - 600.0 < at < start + 200.0 for at in busy):
            return start
    return None


def _herd(start: float, handler: str, count: int) -> list[Ask]:
    """
    Return requests for *count* hanging jobs, and for other jobs at the same time.
    """
    found: list[Ask] = []
    for number in range(count):
        key = f"{handler}-{number}"
        found.append(Ask(start, "set", key, _setter(key, ["hang"], 0, handler, delay=1.0)))
        found.append(Ask(start + 40.0, "cancel", key, _canceller(key)))
    return [*found, *_beside(start + 10.0, _BESIDE)]


def _beside(start: float, count: int) -> list[Ask]:
    """
    Return requests that set *count* jobs, one each second, which end at once.
    """
    keys = [f"beside-{number}" for number in range(count)]
    return [Ask(start + at, "set", key, _setter(key, [], delay=1.0)) for at, key in enumerate(keys)]


def versions(dice: random.Random, length: float, count: int) -> list[Ask]:
    """
    Return requests for one-time and recurring jobs with handlers that only some nodes have.
    """
    found: list[Ask] = []
    for number, handler in enumerate(VERSIONED * 2):
        rule: dict[str, Any] = {
            "every": dice.choice((900, 3600)),
            "misfire": "once" if number < len(VERSIONED) else "all",
        }
        key = f"version/every/{number}"
        found.append(
            Ask(dice.uniform(0.0, 60.0), "set", key, _setter(key, dice.choice(([], ["fail"])), 0, handler, **rule))
        )
    for _ in range(count):
        at, key = dice.uniform(1.0, length), f"version-{dice.randrange(20)}"
        plan, takes = dice.choice(_PLANS), dice.choice((0.0, 0.0, 2.0, 30.0))
        delay = dice.choice((0.0, 0.5, 12.0, 60.0)) * dice.random()
        for _ in range(dice.choice((1, 1, 3))):
            found.append(Ask(at, "set", key, _setter(key, plan, takes, dice.choice(VERSIONED), delay=delay)))
            if dice.random() < 0.2:
                found.append(Ask(at + dice.uniform(0.0, 60.0), "cancel", key, _canceller(key)))
            key = f"version-{dice.randrange(20)}"
    return found


def pauses(dice: random.Random, others: list[Ask]) -> list[Ask]:
    """
    Return requests that pause some of the jobs of *others*. Most of these jobs are resumed later.
    """
    found: list[Ask] = []
    for each in others:
        if each.verb == "set" and dice.random() < 0.15:
            at = each.at + dice.choice((0.0, 0.3, 3.0, 600.0)) * dice.random()
            found.append(Ask(at, "pause", each.key, _pauser(each.key)))
            if dice.random() < 0.8:
                at += dice.choice((0.01, 2.0, 60.0, 1_800.0)) * dice.random()
                found.append(Ask(at, "resume", each.key, _resumer(each.key)))
    return found


def _pauser(key: str) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.pause(key)


def _resumer(key: str) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.resume(key)


def _mover(key: str, delay: float) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.move(key, delay=delay)


def _canceller(key: str) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.cancel(key)


def _stopper(key: str) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.cancel(key, running=True)


def series(dice: random.Random) -> list[Ask]:
    """
    Return the requests that set the recurring jobs.
    """
    found: list[Ask] = []
    for misfire in ("once", "all", "skip"):
        every = dice.choice((600, 1800, 3600))
        rules: dict[str, dict[str, Any]] = {
            f"every/{misfire}": {"every": every, "misfire": misfire},
            f"cron/{misfire}": {"cron": dice.choice(("*/20 * * * *", "5 * * * *", "0 */2 * * *")), "misfire": misfire},
        }
        for key, rule in rules.items():
            found.append(Ask(dice.uniform(0.0, 60.0), "set", key, _setter(key, plan=_plan(dice, key), **rule)))
    return found


def steers(seed: int, length: float) -> list[Ask]:
    """
    Return repeated requests that run recurring jobs now, delay them and advance them.
    """
    dice = random.Random(seed)
    found: list[Ask] = []
    for number, misfire in enumerate(("once", "all", "skip") * 2):
        rule: dict[str, Any] = {"every": dice.choice((600, 1800))} if number % 2 else {"cron": "*/20 * * * *"}
        key = f"steer/{number}"
        setter = _setter(key, dice.choice(([], ["fail"])), dice.choice((0, 30.0)), misfire=misfire, **rule)
        found.append(Ask(dice.uniform(0.0, 60.0), "set", key, setter))
        for _ in range(int(length / 1200)):
            verb = dice.choice(("run_now", "run_now", "move", "skip"))
            call: dict[str, Callable[[Scheduler, int], Answer]] = {
                "run_now": _runner(key),
                "move": _mover(key, dice.choice((30.0, 700.0, 4000.0))),
                "skip": _skipper(key),
            }
            found.append(Ask(dice.uniform(60.0, length), verb, key, call[verb]))
    return found


def _runner(key: str) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.run_now(key)


def _skipper(key: str) -> Callable[[Scheduler, int], Answer]:
    return lambda scheduler, _: scheduler.skip(key)


def overlaps(dice: random.Random) -> list[Ask]:
    """
    Return requests that set recurring jobs whose runs may last past the next due time.
    """
    found: list[Ask] = []
    for policy in Overlap:
        rule: dict[str, Any] = {
            "every": LONG_EACH_S,
            "overlap": policy.value,
            "misfire": dice.choice(("once", "all", "skip")),
        }
        key, takes = f"overlap/{policy}", dice.choice((700.0, 1000.0, 1500.0))
        found.append(Ask(dice.uniform(0.0, 60.0), "set", key, _setter(key, [], takes, "long", **rule)))
    return found


def _plan(dice: random.Random, key: str) -> list[str]:
    return [] if key.startswith("cron") else dice.choice(([], [], ["fail"]))


def equipped(seed: int, length: float, count: int) -> list[Ask | Break]:
    """
    Return requests for jobs that need a target, a zone or a kind of rule, and faults that take these from a node.
    """
    dice = random.Random(seed)
    rules: dict[str, dict[str, Any]] = {
        "zoned": {"cron": "*/10 * * * *", "tz": ZONE},
        "ruled": {"every": 600, "exclude": ["2041-05-01"]},
    }
    found: list[Ask | Break] = []
    for name, rule in rules.items():
        for misfire in ("once", "all"):
            key, takes, start = f"{EQUIPPED}{name}/{misfire}", dice.choice((20.0, 60.0)), dice.uniform(60.0, 300.0)
            call = _setter(key, dice.choice(([], ["fail"])), takes, name, misfire=misfire, **rule)
            found.append(Ask(start, "set", key, call))
            instant = _FIRST_TEN_S if name == "zoned" else start + 600.0
            while (instant := instant + 600.0) < length:  # while the job runs, if it runs on that node
                lost = dice.choice((100.0, 400.0))
                found.append(Break(instant + dice.uniform(0.0, takes), f"{LOSS}{name}", lost))
    for number in range(count):
        key, delay = f"{EQUIPPED}{TARGET}/{number}", dice.choice((0.5, 12.0, 60.0)) * dice.random()
        call = _setter(key, [], 0, TARGET, target=TARGET, delay=delay)
        found.append(Ask(dice.uniform(1.0, length), "set", key, call))
    return found


def needed_by(key: str) -> str:
    """
    Return the name of the equipment that the job *key* needs, or "" if it needs none.
    """
    return key.removeprefix(EQUIPPED).partition("/")[0] if key.startswith(EQUIPPED) else ""


def _ask(dice: random.Random, at: float, key: str) -> Ask:
    verb = dice.choices(("set", "move", "cancel", "run_now", "replay"), (60, 12, 10, 5, 3))[0]
    delay = dice.choice((0.0, 0.02, 0.5, 3.0, 15.0, 120.0, 1800.0, 7200.0)) * dice.uniform(0.5, 1.5)
    if verb == "set":
        fields: dict[str, Any] = {"delay": delay, "mode": dice.choice(("replace",) * 4 + ("keep", "earliest"))}
        if fields["mode"] == "replace" and dice.random() < 0.1:
            fields["max_wait"] = 300.0
        if dice.random() < 0.05:
            fields["expires"] = dice.choice((5.0, 600.0))
        takes = dice.choice((0, 0, 0, 0, 0, 0.01, 1.0, 30.0))
        plan = dice.choice(_PLANS)
        return Ask(at, verb, key, _setter(key, plan, takes, dice.choice(_HANDLERS), **fields))
    if verb == "move":
        return Ask(at, verb, key, lambda scheduler, _: scheduler.move(key, delay=delay))
    if verb == "cancel":
        return Ask(at, "stop", key, _stopper(key)) if int(at * 1000) % 2 else Ask(at, verb, key, _canceller(key))
    ask: dict[str, Callable[[Scheduler, int], Answer]] = {
        "run_now": _runner(key),
        "replay": lambda scheduler, _: scheduler.replay(key),
    }
    return Ask(at, verb, key, ask[verb])


def _setter(
    key: str, plan: list[str], takes: float = 0, handler: str = "work", asked: float | None = None, **fields: Any
) -> Callable[[Scheduler, int], Answer]:
    def call(scheduler: Scheduler, number: int) -> Answer:
        payload = {"call": number, "plan": plan, "takes": takes} | ({} if asked is None else {"delay": asked})
        request = SetRequest(key, handler=handler, payload=payload, retry=RETRY, **fields)
        return scheduler.set_many([request])[0]

    return call


def scopes(dice: random.Random, length: float, count: int) -> Iterator[Break]:
    """
    Yield *count* pauses of one handler, all handlers, or all jobs, in order of time. The pauses may overlap.
    """
    for at in sorted(dice.uniform(60.0, length * 0.97) for _ in range(count)):
        yield Break(at, f"scope {dice.choice(_SCOPES)}", dice.choice((1.0, 20.0, 120.0, 600.0)))


def breaks(dice: random.Random, length: float, count: int, *, is_cluster: bool) -> Iterator[Break]:
    """
    Yield about *count* faults in order of time. There are some calm hours between the faults.
    """
    kinds = ["kill", "kill", "pause", "pause", "cut", "weather", "weather", "stop", "step", "deploy"]
    if is_cluster:
        kinds.append("failover")
    else:
        kinds += ["step"] * 5  # on a file, the time of day is the store's clock
    moments = sorted(dice.uniform(60.0, length * 0.97) for _ in range(count))
    for at in moments:
        what = dice.choice(kinds)
        span = {
            "kill": dice.choice((0.0, 1.0, 30.0, 400.0)),
            "pause": dice.choice((0.5, 5.0, 45.0, 200.0)),
            "cut": dice.choice((1.0, 20.0, 90.0)),
            "weather": dice.choice((60.0, 600.0)),
            "stop": dice.choice((0.0, 60.0)),
            "deploy": dice.choice((5.0, 60.0)),
            "step": 0.0,
            "failover": 0.0,
        }[what]
        amount = dice.choice((-86_400.0, -3600.0, -5.0, 0.3, 5.0, 3600.0, 86_400.0)) if what == "step" else 0.0
        yield Break(at, what, span, amount if is_cluster else max(-3600.0, min(3600.0, amount)))


def server_steps(seed: int, broken: Sequence[Break]) -> Iterator[Break]:
    """
    Yield the steps of the server's clock on the day of *seed*.
    """
    dice = random.Random(seed)
    for each in broken:
        if each.what == "kill" and dice.random() < _SERVER_STEPS:
            step = dice.choice((-7200.0, -3600.0, -600.0, -5.0, 5.0, 3600.0))
            yield Break(each.at + dice.uniform(0.0, 50.0), "server step", 0.0, step)
