"""
Designs that are chosen by name, and the geometry that suits a trace.
"""

import pytest

from tickwheel.lab.designs import Design, DesignError, parse_design
from tickwheel.lab.replay import replay
from tickwheel.lab.trace import TraceOperation
from tickwheel.lab.tune import SLOTS_MAX, advise, facts_of, fitted
from tickwheel.wheels import CARDS
from tickwheel.wheels.card import in_words

TIMEOUTS: list[TraceOperation] = []
"""
A trace with five hundred timeouts of 5 s, most of which are cancelled at once.
"""
for number in range(500):
    t_us, key = number * 10_000, str(number)
    TIMEOUTS.append(TraceOperation(t_us, "S", key, 5_000_000))
    if number % 4:
        TIMEOUTS.append(TraceOperation(t_us + 1, "C", key, 0))
    else:
        TIMEOUTS.append(TraceOperation(t_us + 1, "S", key, 30_000_000))


def test_designs_by_name() -> None:
    """
    A wheel can be described by a name with options, and is printed in the same way.
    """
    design = parse_design("rounds:tick=0.25,slots=16")
    assert design.make().abilities.tick_ns == 250_000_000
    assert str(design) == "rounds:tick=0.25,slots=16"
    assert [str(parse_design(name)) for name in CARDS] == list(CARDS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("wheel", "expected one of native, heap, single, rounds, hierarchical, cascading"),
        ("heap:tick=1", "no option 'tick': expected none"),
        ("cascading:slots=5", "no option 'slots': expected tick"),
        ("rounds:tick=fast", "tick is 'fast': expected a number"),
        ("rounds:slots=1.5", "slots is '1.5': expected a whole number"),
        ("rounds:slots=1e3", "slots is '1e3': expected a whole number"),
        ("rounds:tick", "tick is '': expected a number"),
        ("rounds:slots=1", "slots is 1: pass an integer, 2 or more"),
        ("rounds:tick=0", "tick is 0.0: pass a positive, finite number"),
        ("rounds:tick=inf", "tick is inf: pass a positive, finite number"),
        ("rounds:tick=nan", "tick is nan"),
    ],
)
def test_designs_that_are_refused(text: str, problem: str) -> None:
    """
    If a design cannot be built, the error has the text of the design and a reason.
    """
    with pytest.raises(DesignError) as refusal:
        parse_design(text)
    assert problem in str(refusal.value)
    assert text[:5] in str(refusal.value)


def test_facts() -> None:
    """
    The facts of a trace are the percentiles of its delays, its outcomes, and its largest number of pending timers.
    """
    facts = facts_of(TIMEOUTS)
    assert (facts.sets, facts.peak_pending) == (625, 126)
    assert facts.cancelled == 375 / 500
    assert facts.moved == 125 / 1_000
    assert (facts.tenth_us, facts.median_us) == (5_000_000,) * 2
    assert (facts.ninetieth_us, facts.longest_us) == (30_000_000,) * 2


def test_delays_too_short_for_a_tick() -> None:
    """
    If even the finest possible tick is coarse compared with the delays, the advice says so.
    """
    advice = advise(facts_of([TraceOperation(0, "S", "a", 5)]), "cascading")
    assert advice.reasons == (
        "a tick of 1 us is as fine as a trace is; a tenth of the delays are below 5 us",
        "its counter wraps after 71.6 min, later delays wait in a heap",
    )


@pytest.mark.parametrize(
    ("us", "words"),
    [(0, "0 us"), (999.7, "1,000 us"), (1_500, "1.5 ms"), (999_700, "1,000 ms"), (2**32 * 5e5, "24,855 days")],
)
def test_a_duration_in_words(us: float, words: str) -> None:
    """
    A duration is written with a suitable unit, and without an exponent.
    """
    assert in_words(us) == words


def test_a_tick_is_a_hundredth_of_the_short_delays() -> None:
    """
    The advised tick is one percent of the tenth percentile of the delays, rounded down to a round number.
    """
    facts = facts_of(TIMEOUTS)
    for name in ("single", "rounds", "hierarchical", "cascading"):
        advice = advise(facts, name)
        assert advice.design is not None
        assert advice.design.options["tick"] == 0.05
        assert advice.reasons[0] == "a tick of 50 ms is at most 1 % of the delays, a tenth of which are below 5 s"


def test_slots() -> None:
    """
    A single ring that is advised has enough slots for the longest delay.

    A ring with rounds has enough slots for nine of ten delays to end within one turn.
    """
    facts = facts_of(TIMEOUTS)
    single, rounds = advise(facts, "single").design, advise(facts, "rounds").design
    assert single is not None
    assert rounds is not None
    assert single.make().abilities.span_ns >= 30 * 10**9
    assert single.options["slots"] == 602
    assert rounds.options["slots"] == 1_024
    assert replay(TIMEOUTS, single.make()).counts == replay(TIMEOUTS, rounds.make()).counts


def test_no_single_ring_for_delays_far_apart() -> None:
    """
    If delays range from milliseconds to weeks, no single ring is advised.
    """
    far = [TraceOperation(0, "S", str(number), 1_000) for number in range(20)]
    far.append(TraceOperation(0, "S", "far", 14 * 86_400_000_000))
    facts = facts_of(far)
    advice = advise(facts, "single")
    assert advice.design is None
    assert "too many for a ring" in advice.reasons[1]
    forced = fitted(Design("single"), facts)
    assert forced.options["slots"] <= 2.5 * SLOTS_MAX
    assert replay(far, forced.make()).counts.fire == 21


def test_given_options_are_kept() -> None:
    """
    If the user gives an option, it is kept, and the other options are chosen to suit it.
    """
    facts = facts_of(TIMEOUTS)
    assert fitted(parse_design("rounds:slots=7"), facts).options == {"tick": 0.05, "slots": 7}
    assert fitted(parse_design("single:tick=1"), facts).options == {"tick": 1, "slots": 32}
    assert fitted(parse_design("cascading:tick=1"), facts) == parse_design("cascading:tick=1")
    assert fitted(parse_design("native"), facts) == parse_design("native")
