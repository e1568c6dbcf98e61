"""
Tasks are functions that jobs call with typed arguments.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import pytest

from tickwheel.errors import MissingExtraError
from tickwheel.jobs.checks import decode_payload
from tickwheel.jobs.near import near
from tickwheel.scheduler import (
    AsyncScheduler,
    DeadLetter,
    Firing,
    InvalidJobError,
    Outcome,
    RetryPolicy,
    Schedule,
    Scheduler,
    SetRequest,
    Snooze,
    task,
)
from tickwheel.testing import InlineScheduler, ManualClock

msgspec = pytest.importorskip("msgspec", reason="msgspec is not installed: pip install 'tickwheel[tasks]'")

if TYPE_CHECKING:
    from nowhere import Nothing


class Reason(Enum):
    UNPAID = "unpaid"
    RECALLED = "recalled"


class Level(IntEnum):
    LOW = 1


class Colour(StrEnum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: Decimal
    parts: list[Item] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int


class Box(TypedDict):
    width: int


class Struct(msgspec.Struct):
    when: datetime
    later: timedelta | None = None


SEEN: list[Any] = []


@task
def everything(  # noqa: PLR0917 - as many as there are kinds
    number: int,
    reason: Reason = Reason.UNPAID,
    level: Level = Level.LOW,
    colour: Colour = Colour.RED,
    item: Item | None = None,
    at: datetime | None = None,
    day: date | None = None,
    span: timedelta | None = None,
    ident: UUID | None = None,
    price: Decimal | None = None,
    struct: Struct | None = None,
    point: Point | None = None,
    box: Box | None = None,
    raw: bytes = b"",
    names: set[str] = frozenset(),  # type: ignore[assignment]
    counts: dict[int, float] | None = None,
    word: Literal["a", "b"] = "a",
    many: tuple[int, ...] = (),
) -> None:
    SEEN.append(locals())


@task(name="of a process", executor="process", dead_on=KeyError)
def apart(reason: Reason, firing: Firing | None = None) -> Any:
    if reason is Reason.RECALLED:
        raise KeyError(firing.attempt)
    return DeadLetter(f"{reason} of {firing.attempt}")


@pytest.fixture
def inline():
    """
    Return a manual clock, and a scheduler in memory that fires when the clock moves.
    """
    SEEN.clear()
    clock = ManualClock(wall=1_700_000_000.0)
    scheduler = InlineScheduler(clock).start()
    yield clock, scheduler
    scheduler.stop()


VALUES = {
    "reason": Reason.RECALLED,
    "level": Level.LOW,
    "colour": Colour.RED,
    "item": Item("pear", Decimal("1.10"), [Item("stem", Decimal(0))]),
    "at": datetime(2030, 1, 1, tzinfo=UTC),
    "day": date(2030, 1, 1),
    "span": timedelta(days=1, milliseconds=3),
    "ident": UUID(int=7),
    "price": Decimal("0.1"),
    "struct": Struct(datetime(2030, 1, 1, tzinfo=UTC), timedelta(hours=1)),
    "point": Point(1, 2),
    "box": {"width": 3},
    "raw": b"\x00\xff",
    "names": {"a", "b"},
    "counts": {1: 2.5},
    "word": "b",
    "many": (1, 2, 3),
}


@pytest.mark.parametrize("extra", [set(), {"a"}])
def test_the_order_of_a_set_does_not_matter(inline, extra):
    """
    A Python set is accepted as an argument, although its elements come back in another order.

    Equal sets give equal payloads.
    """

    @task(name="shop.label")
    def label(labels: set[str | int]) -> None:
        assert labels

    labels = {*range(100), *extra}
    labels -= {*range(100)} - {1, 8}  # its table stays large, so 1 comes before 8; in a small one 8 comes first
    calls = label.of(labels), label.of({*extra, 8, 1})
    outcomes = [inline[1].set("k", call, delay=1).outcome for call in calls]
    assert outcomes == [Outcome.CREATED, Outcome.REPLACED]
    if not extra:
        assert calls[0] == calls[1]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_with_its_type(inline, name):
    """
    A value in the payload, which is JSON, comes back with the type that the argument's annotation names.
    """
    clock, scheduler = inline
    scheduler.register(everything)
    scheduler.set("k", everything.of(17, **{name: VALUES[name]}), delay=1)
    payload = decode_payload(scheduler.get("k").payload)
    assert set(payload) == {"number", name}
    clock.advance(2)
    assert SEEN[0][name] == VALUES[name]
    assert type(SEEN[0][name]) is type(VALUES[name])


def test_a_model_of_pydantic(inline):
    """
    If pydantic is installed, it encodes and decodes its own models.
    """
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    clock, scheduler = inline

    class Order(pydantic.BaseModel):
        number: int = pydantic.Field(gt=0)
        at: datetime

    def place(orders):
        SEEN.append(orders)

    place.__annotations__ = {"orders": list[Order]}
    place = scheduler.task(name="place")(place)
    order = Order(number=3, at=datetime(2030, 1, 1, tzinfo=UTC))
    scheduler.set("k", place.of([order]), delay=1)
    clock.advance(2)
    assert [[order]] == SEEN
    assert "greater than 0" in place.misfit({"orders": [{"number": 0, "at": "2030-01-01T00:00:00Z"}]})
    with pytest.raises(InvalidJobError, match="orders is"):
        place.of([{"number": 0}])


def test_an_omitted_argument_gets_the_functions_default(inline):
    """
    An omitted argument is not stored.

    When the job runs, the function uses its own default.
    """
    clock, scheduler = inline

    @scheduler.task(name="greet")
    def greet(name: str, mark: str = "!") -> None:
        SEEN.append(name + mark)

    assert greet.of("ada").payload == {"name": "ada"}
    scheduler.set("k", greet.of("ada"), delay=1)
    clock.advance(2)
    greet("bob", mark="?")
    assert SEEN == ["ada!", "bob?"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", ["first", "default", "keyword", "positional", "none"])
def test_the_firing(inline, place, is_async):
    """
    A task gets the firing if it has a parameter for the firing.

    A call of the task gives no argument for this parameter. A coroutine function can be a task, too.
    """
    clock, scheduler = inline

    def first(firing: Firing, x: int) -> None:
        SEEN.append((x, firing.job.key))

    def default(x: int, firing: Firing | None = None) -> None:
        SEEN.append((x, firing.job.key))

    def keyword(x: int, *, firing: Firing | None = None, **rest: int) -> None:
        assert not rest
        SEEN.append((x, firing.job.key))

    def positional(firing: Firing, x: int, /) -> None:
        SEEN.append((x, firing.job.key))

    def none(x: int) -> None:
        SEEN.append((x, "k"))

    function = locals()[place]

    async def later(*args, **kwargs):
        await asyncio.sleep(0)
        function(*args, **kwargs)

    later.__signature__ = __import__("inspect").signature(function)
    made = scheduler.task(name="t")(later if is_async else function)
    scheduler.set("k", made.of(3), delay=1)
    clock.advance(2)
    assert SEEN == [(3, "k")]
    if place != "none":
        with pytest.raises(TypeError, match="firing"):
            made.of(x=3, firing=None)


def test_names_of_all_kinds(inline):
    """
    A task is found by the name of its module and function, by a given name, or by a former name.
    """
    clock, scheduler = inline
    assert everything.name == f"{__name__}.everything"
    made = scheduler.task(name="new", aliases=["old", "older"])(lambda x: SEEN.append(x))  # noqa: PLW0108  a builtin method has no signature of one x
    for key, handler in (("a", "new"), ("b", "old"), ("c", "older")):
        scheduler.set(key, handler=handler, payload={"x": key}, delay=1)
    scheduler.set("d", target="pull", handler="older", payload={"x": "d"}, delay=3600)
    scheduler.set("e", target="log", handler="older", delay=3600)
    assert [job.key for job in scheduler.jobs_of(made)] == ["a", "b", "c", "d"]
    clock.advance(2)
    assert sorted(SEEN) == ["a", "b", "c"]
    for taken in ("new", "older"):
        with pytest.raises(InvalidJobError, match="there is a handler of that name"):
            scheduler.task(name="another", aliases=[taken])(lambda x: x)
    assert not scheduler.has_handler("another")


@pytest.mark.parametrize(
    ("module", "name"), [("__main__", "cancel"), ("shop", "f.<locals>.cancel"), ("shop", "<lambda>")]
)
def test_a_name_that_no_other_process_knows(module, name):
    """
    A task needs an explicit name if other processes would not know the name of its function.
    """

    def cancel(x: int) -> None: ...

    cancel.__module__, cancel.__qualname__ = module, name
    with pytest.raises(InvalidJobError, match="name="):
        task(cancel)
    assert task(name="cancel")(cancel).name == "cancel"


@pytest.mark.parametrize(
    ("fields", "error", "state"),
    [
        ({"retry_on": (ConnectionError,)}, ConnectionResetError(), "pending"),
        ({"retry_on": ConnectionError}, ValueError("no"), "dead"),
        ({"retry_on": ()}, ValueError("no"), "dead"),
        ({"dead_on": (ValueError, KeyError)}, UnicodeError("no"), "dead"),
        ({"dead_on": ValueError}, KeyError("no"), "pending"),
        ({"retry_on": OSError, "dead_on": ConnectionError}, ConnectionResetError(), "dead"),
        ({"retry_on": OSError, "dead_on": ConnectionError}, TimeoutError(), "pending"),
        ({}, ValueError("no"), "pending"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_errors_that_end_a_task(inline, fields, error, state, is_async):
    """
    The class of an error decides whether the task is retried.

    A dead letter has the text of the error and the line that raised it.
    """
    clock, scheduler = inline

    def fail() -> None:
        raise error

    async def fail_later() -> None:
        fail()

    failing = scheduler.task(name="fail", **fields)(fail_later if is_async else fail)
    scheduler.set("k", failing.of(), delay=1)
    clock.advance(1)
    job = scheduler.get("k")
    assert (job.state, job.attempt) == (state, 1)
    assert job.error.startswith(type(error).__name__)
    assert "in fail" in scheduler.history("k")[0].traceback


def test_an_assertion_error_reaches_the_test(inline):
    """
    If a task raises AssertionError, the call that moves the test's clock raises the same error, however the job ends.
    """
    clock, scheduler = inline

    def check() -> None:
        raise AssertionError

    scheduler.set("k", scheduler.task(name="check", dead_on=AssertionError)(check).of(), delay=1)
    with pytest.raises(AssertionError):
        clock.advance(1)
    assert scheduler.get("k").state == "dead"


def test_the_policy_comes_with_the_call():
    """
    The call of a task includes the retry policy.

    So the policy applies even if the process that sets the job does not register the task.
    """
    scheduler = Scheduler("memory://")
    made = task(name="t", retry=RetryPolicy(2))(lambda x: x)
    job = scheduler.set("k", made.of(1), delay=1).job
    assert job.retry == RetryPolicy(2)
    [answer] = scheduler.set_many([SetRequest("l", made.of(1), delay=1, retry=RetryPolicy(3))])
    assert answer.job.retry == RetryPolicy(3)
    scheduler.stop()


def test_a_declaration_has_calls(inline):
    """
    A schedule of a manifest can be given as a call of a task, in the same way as a job.

    Declaring the schedule again leaves it unchanged.
    """
    clock, scheduler = inline

    @scheduler.task(name="clean", retry=RetryPolicy(2))
    def clean(days: int) -> None:
        SEEN.append(days)

    given = [Schedule("nightly", clean.of(3), every="1d"), Schedule("hourly", clean.of(days=0), every="1h")]
    assert scheduler.declare(given, "shop").outcome == "changed"
    assert scheduler.declare(given, "shop").outcome == "unchanged"
    assert scheduler.get("nightly").retry == RetryPolicy(2)
    clock.advance(3_600)
    assert SEEN == [0]
    with pytest.raises(InvalidJobError, match=r"its of\(\)"):
        scheduler.declare([Schedule("nightly", clean, every="1d")], "shop")


def test_the_result_of_a_task_counts(inline):
    """
    A result of a task has the same meaning as a result of a handler.
    """
    clock, scheduler = inline
    snooze = scheduler.task(name="s")(lambda: Snooze(60))
    scheduler.set("k", snooze.of(), delay=1)
    clock.advance(1)
    assert scheduler.get("k").attempt == 0


def test_a_process_of_its_own(make, until, monkeypatch):
    """
    A worker process finds the task by its module, and its arguments have the right types.

    The errors of the task have the same effect as in this process.
    """
    sys.modules.setdefault(__name__, sys.modules[everything.__module__])
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # the process finds the task's module there, too
    scheduler = make("memory://")
    scheduler.register(apart)
    scheduler.start()
    scheduler.set("k", apart.of(Reason.UNPAID), delay=0)
    until(lambda: (job := scheduler.get("k")) is not None and job.state == "dead")
    assert scheduler.get("k").error == "Reason.UNPAID of 1"
    scheduler.set("l", apart.of(Reason.RECALLED), delay=0)
    until(lambda: (job := scheduler.get("l")) is not None and job.state == "dead")
    assert scheduler.get("l").error == "KeyError: 1"


def test_middleware_runs_around_each_attempt(inline):
    """
    The first middleware is the outermost.

    A middleware sees exceptions of the task. An exception of the middleware itself is the attempt's error.
    """
    clock, scheduler = inline
    order = []

    def around(name):
        @contextmanager
        def entered(firing):
            order.append(f"{name} begins {firing.attempt}")
            try:
                yield
            except Exception as error:
                order.append(f"{name} saw {type(error).__name__}")
                raise
            order.append(f"{name} ends")

        return entered

    scheduler.middleware(around("outer"))

    @scheduler.task(name="t", dead_on=KeyError)
    async def run(x: int) -> None:
        order.append("runs")
        if x:
            raise KeyError(x)

    @scheduler.handler("h")
    def handler(payload):
        order.append(payload)

    assert scheduler.middleware(around("inner")) is not None
    scheduler.set("a", run.of(0), delay=1)
    clock.advance(1)
    assert order == ["outer begins 1", "inner begins 1", "runs", "inner ends", "outer ends"]
    order.clear()
    scheduler.set("b", run.of(1), delay=1)
    clock.advance(1)
    assert order[3:] == ["inner saw KeyError", "outer saw KeyError"]
    assert scheduler.get("b").state == "dead"
    order.clear()
    scheduler.set("c", handler="h", payload="handled", delay=1)
    clock.advance(1)
    assert order[2] == "handled"

    @scheduler.middleware
    def refuse(_firing):
        raise ValueError("no")

    scheduler.set("d", run.of(0), delay=1)
    clock.advance(1)
    assert scheduler.get("d").error == "ValueError: no"


def later(x: Later) -> None:
    """
    Take an argument of a class that is defined below.
    """
    SEEN.append(x)


@dataclass
class Later:
    name: str


def unresolved(number: int, thing: Nothing) -> None:
    """
    Take arguments whose types exist for type checkers only.
    """


def unresolved_elsewhere(number: int) -> Nothing:
    pass


def of_socket(firing_: Firing) -> None:
    """
    Take the firing in a parameter that is not named `firing`.
    """


def of_object(thing: Scheduler) -> None:
    """
    Take an argument that JSON cannot represent.
    """


def of_two_texts(when: datetime | date) -> None:
    """
    Take one of two types that both become text in JSON.
    """


def test_annotations_are_resolved_late(inline):
    """
    The type of an argument may be defined below its task.

    The type of the return value is never needed.
    """
    clock, scheduler = inline
    made = scheduler.task(name="later")(later)
    scheduler.set("k", made.of(Later("ada")), delay=1)
    clock.advance(1)
    assert [Later("ada")] == SEEN
    scheduler.task(name="u")(unresolved_elsewhere).of(3)


@pytest.mark.parametrize(
    ("function", "parameter", "remedy"),
    [
        (unresolved, "thing", "TYPE_CHECKING"),
        (of_socket, "firing_", "name the parameter 'firing'"),
        (of_object, "thing", "a dataclass"),
        (of_two_texts, "when", "more than one str-like"),
    ],
)
@pytest.mark.parametrize("make", [Scheduler, AsyncScheduler])
def test_an_unusable_annotation(function, parameter, remedy, make):
    """
    If an annotation cannot be used, the first call and the start raise an error that names it.
    """
    scheduler = make("memory://")
    made = scheduler.task(name="t")(function)
    with pytest.raises(InvalidJobError, match=f"t: {parameter} is .*{remedy}"):
        made.of(*range(len(function.__annotations__) - 1))
    with pytest.raises(InvalidJobError, match=f"t: {parameter} is "):
        asyncio.run(scheduler.start()) if make is AsyncScheduler else scheduler.start()


@dataclass
class Sub(Item):
    more: int = 0


def open_ended(data: Any) -> None:
    pass


def closed(item: Item | None = None, number: int = 0, price: float = 0) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (open_ended, {"data": Item("a", Decimal(1))}),
        (open_ended, {"data": {"nested": [Reason.UNPAID]}}),
        (open_ended, {"data": datetime(2030, 1, 1, tzinfo=UTC)}),
        (open_ended, {"data": object()}),
        (open_ended, {"data": Reason}),
        (closed, {"item": Sub("a", Decimal(1), more=3)}),
        (closed, {"item": {"name": "a"}}),
        (closed, {"number": True}),
        (closed, {"number": 1.5}),
        (closed, {"number": "1"}),
        (closed, {"number": None}),
        (closed, {"price": "1"}),
    ],
)
def test_a_value_that_would_come_back_changed(function, arguments):
    """
    An argument is refused if the task would not get the same value back from the JSON payload.

    The error names the argument.
    """
    made = task(name="t")(function)
    with pytest.raises(InvalidJobError, match=rf"t\.of: {next(iter(arguments))} is "):
        made.of(**arguments)


@pytest.mark.parametrize("price", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_represent(price):
    """
    A number that JSON cannot represent is refused.

    Nothing is set.
    """
    scheduler = Scheduler("memory://")
    with pytest.raises(InvalidJobError, match=r"price is nan|payload is"):
        scheduler.set("k", task(name="t")(closed).of(price=price), delay=1)
    assert scheduler.get("k") is None
    scheduler.stop()


def mistakes(scheduler):
    """
    Return a dict of wrong calls. The key of each call is a pattern for its error message, with the remedy.
    """
    made = scheduler.task(name="shop.cancel_order")(closed)
    return {
        "its of()": lambda: scheduler.set("k", made, delay=1),
        r"of\(\)": lambda: scheduler.set("k", closed, delay=1),
        "handler=": lambda: scheduler.set("k", "shop.cancel_order", delay=1),
        "leave handler= out": lambda: scheduler.set("k", made.of(), handler="h", delay=1),
        "leave payload= out": lambda: scheduler.set("k", made.of(), payload=1, delay=1),
        "leave it out for": lambda: scheduler.set("k", made.of(), target="log", delay=1),
        "use move": lambda: scheduler.set("k", made.of(), keep_payload=True, delay=1),
        "did you mean 'shop.cancel_order'": lambda: scheduler.set("k", handler="shop.cancel_oder", delay=1),
        "mean 'shop.cancel_order'": lambda: scheduler.set("k", handler="shop.cancle_order", delay=1),
        "you mean 'shop.cancel_order'": lambda: scheduler.set("k", handler="cancel_order", delay=1),
        "u mean 'shop.cancel_order'": lambda: scheduler.set("k", handler="Shop.cancel-order", delay=1),
        r"set\(\).*'dely'.*mean 'delay'": lambda: scheduler.set("k", made.of(), dely=1),
        r"set\(\).*'when'.*pass some of": lambda: scheduler.set("k", made.of(), when=1),
        r"list\(\).*'stat'.*mean 'state'": lambda: scheduler.list(stat="dead"),
        r"bulk\(\).*'shft'.*mean 'shift'": lambda: scheduler.bulk("move", shft="1h"),
        "unexpected keyword argument 'numbr'": lambda: made.of(numbr=1),
        "too many positional": lambda: made.of(None, 1, 2, 3),
        r"task\(\).*'retries'": lambda: scheduler.task(retries=3)(closed),
        "did you mean 'timeout'": lambda: scheduler.task(timeot=3)(closed),
        r"@task\(name=": lambda: scheduler.task("name")(closed),
        "is a task already": lambda: scheduler.task(name="x")(made),
        "classes of exceptions": lambda: scheduler.task(name="x", retry_on=ValueError("x"))(closed),
        "pass classes": lambda: scheduler.task(name="x", dead_on=["ValueError"])(closed),
        "such as": lambda: scheduler.task(name="x", aliases="old")(closed),
        "pass a RetryPolicy": lambda: scheduler.task(name="x", retry=3)(closed),
        "timeout is": lambda: scheduler.task(name="x", timeout="2 fortnights")(closed),
        "pass 'thread' or 'process'": lambda: scheduler.task(name="x", executor="fiber")(closed),
        "there is a handler of that name": lambda: scheduler.task(name="shop.cancel_order")(closed),
        "pass a task": lambda: scheduler.register(closed),
        "a payload has arguments by name": lambda: scheduler.task(name="x")(lambda *args: args),
        "let it be the first": lambda: scheduler.task(name="x")(lambda x, firing: (x, firing)),
        "is a generator": lambda: scheduler.task(name="x")(lambda: (yield)),
        "pass a call such as": lambda: scheduler.set("k", delay=1),
        "pass a list of SetRequest": lambda: scheduler.set_many(SetRequest("k", made.of(), delay=1)),
        "what its of": lambda: scheduler.set_many([SetRequest("k", made, delay=1)]),
        "a task": lambda: scheduler.jobs_of(closed),
        "pass a call of the task": lambda: scheduler.set("k", handler=made, delay=1),
        "pass the key first": lambda: scheduler.set(made.of(), delay=1),
        r"of\(\) got an unexpected .*'pric': did you mean 'price'": lambda: made.of(pric=1),
        "not their names": lambda: scheduler.task(name="x", retry_on="OSError")(closed),
        "is a method, and no payload": lambda: scheduler.task(name="x")(Sent.later),
        "which needs no handler": lambda: scheduler.handler("h")(made),
        "is a class, and its objects would be lost": lambda: scheduler.task(name="x")(Sent),
        "dead_on has it": lambda: scheduler.task(name="x", retry_on=OSError, dead_on=OSError)(closed),
        "dead_on has it, too": lambda: scheduler.task(name="x", retry_on=(KeyError,), dead_on=[LookupError])(closed),
        "pass it behind the key": lambda: scheduler.set("k", handler=made.of(), delay=1),
        "JSON has no TaskCall: pass it behind": lambda: scheduler.set("k", handler="h", payload=made.of(), delay=1),
        "which @task makes": lambda: scheduler.register(closed),
    }


class Sent:
    def later(self, number: int) -> None: ...


def test_a_task_has_no_verbs_of_other_libraries():
    """
    If a verb of another task library is called on a task, the error names the verb of this library.
    """
    made = task(name="t")(closed)
    for name in ("delay", "apply_async", "defer", "send"):
        with pytest.raises(AttributeError, match=rf"no '{name}': set a call of it, as in scheduler\.set"):
            getattr(made, name)


@pytest.mark.parametrize("remedy", mistakes(Scheduler("memory://")))
def test_a_mistake_names_its_remedy(remedy):
    """
    Each mistake raises an error that names its remedy.
    """
    scheduler = Scheduler("memory://")
    with pytest.raises((InvalidJobError, TypeError), match=remedy):
        mistakes(scheduler)[remedy]()
    scheduler.stop()


@pytest.mark.parametrize("name", ["mail2", "shop.cancel_orders_of_customers", "crm.cancel_order", "cancelling", "log"])
def test_a_name_that_another_process_may_have(name):
    """
    An unknown handler name that resembles no known name is accepted.

    Another process may know the handler.
    """
    scheduler = Scheduler("memory://")
    scheduler.task(name="shop.cancel_order")(closed)
    scheduler.task(name="mail1")(closed)
    assert scheduler.set("k", handler=name, delay=1).outcome == "created"
    scheduler.stop()


def test_without_tasks_no_name_is_suggested():
    """
    In a process without tasks, the error for an unknown handler suggests no other name.
    """
    scheduler = Scheduler("memory://")
    scheduler.handler("mail")(print)
    assert scheduler.set("k", handler="mial", delay=1).outcome == "created"
    scheduler.stop()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mial", "mail"),
        ("mai", "mail"),
        ("maill", "mail"),
        ("MAIL", "mail"),
        ("send_report", "send-report"),
        ("mail", None),
        ("mail2", None),
        ("nightly", None),
        ("ab", None),
        ("", None),
    ],
)
def test_typos_in_names(name, meant):
    """
    A long enough name counts as a typo of a known name if one or two letters differ.
    """
    assert near(name, ["mail", "send-report", "mail1", "aa"]) == meant
    assert near(name, []) is None


def test_without_msgspec(monkeypatch):
    """
    Without msgspec, the error names the extra to install.

    A task without parameters does not need msgspec.
    """
    made = task(name="t")(closed)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(MissingExtraError, match=r"tickwheel\[tasks\]"):
        made.of()
    assert task(name="u")(lambda: None).of().payload == {}


def test_a_method_is_bound_first(inline):
    """
    A task that is made from a bound method calls the method on its object.
    """
    clock, scheduler = inline

    class Shop:
        def expire(self, number: int) -> None:
            SEEN.append((self, number))

    shop = Shop()
    expire = scheduler.task(name="expire")(shop.expire)
    scheduler.set("k", expire.of(number=3), delay=1)
    clock.advance(1)
    assert [(shop, 3)] == SEEN
