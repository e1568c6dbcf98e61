"""
Write tests/full_only.txt, the list of tests that `make test` leaves to `make test-full`, from the durations of a run.

    python -P scripts/quick_set.py LOG...
    python -P scripts/quick_set.py --mutants

The second form writes nothing. It prints the deliberate faults that tests have to find, and which of the two commands
finds each.

`make test-times` runs every test, and then this program. A log has a JSON line for each test. The line has the test's
name, its seconds of CPU, its seconds by the clock, and the seconds of CPU of the shared fixtures that it was the first
to request. If a test is in no log, its line in the list stays, so the log of a quick run only adds to the list.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS / "support"))

import quick_set  # noqa: E402  the pytest plugin that reads the list

CPU_S, SUITE_CPU_S, GUARD_CPU_S, WALL_S = 0.25, 1.0, 4.5, 4.0
"""
A test that uses more CPU, or lasts longer on a busy machine, is not quick. The limit of CPU is higher for a test of a
suite, and for the cheapest test of a file whose tests are all costly. It is highest for a test that guards a clause of
the promise (the guarantees of tickwheel).
"""

STORES = [
    f"scheduler/stores/test_{store}.py::Test{store.title()}Store" for store in ("memory", "sqlite", "postgres", "redis")
]
SMOKE = (
    "test_a_whole_firing",
    "test_all_fields_come_back",
    "test_cancel_too_late",
    "test_done_and_recurring",
    "test_generations_are_never_used_twice",
    "test_move_expiry_keeps_its_distance",
    "test_order_on_one_key",
    "test_owner_rescue",
    "test_paused",
    "test_zombie",
)
"""The ten tests of the store suite that `make test` runs for each of `FORMS`."""
SHARED_SMOKE = (
    "test_begins_are_the_owners",
    "test_changes_are_told_to_the_owner_alone",
    "test_changes_of_others",
    "test_one_owner",
    "test_others_may_write",
    "test_others_see_the_owners",
    "test_resumed_by_others",
    "test_two_write_at_once",
    "test_wake_and_close_end_a_wait",
    "test_wakes_the_owner",
)
FORMS = {
    "pooled": ("scheduler/stores/test_pooled_postgres.py::TestPooledStore",),
    "partitioned": (
        "scheduler/stores/test_redis.py::TestPartitionOfRedisStore",
        "scheduler/stores/test_redis.py::TestPartitionedRedisStore",
    ),
    "sharded": (
        "scheduler/stores/test_postgres.py::TestShardedPostgresStore",
        "scheduler/stores/test_redis.py::TestShardedRedisStore",
    ),
    "far": ("scheduler/stores/test_sqlite_far.py::TestFarStore",),
    "cascaded": (
        "scheduler/stores/test_sqlite_far.py::TestCascadingStore",
        "scheduler/stores/test_sqlite_runs.py::TestMergingStore",
    ),
    "shared": (
        "scheduler/stores/test_pooled_postgres.py::TestSharedPooledStore",
        "scheduler/stores/test_redis.py::TestSharedPartitionedRedisStore",
        "scheduler/stores/test_sqlite_far.py::TestSharedCascadingStore",
        "scheduler/stores/test_sqlite_runs.py::TestSharedMergingStore",
    ),
}
"""Variants of a store beside its main form, each with the test classes that run the suite on it."""

FULL = (
    "drivers/test_asyncio.py::TestAsyncioOverHeap",
    "drivers/test_manual.py::TestPolled",
    "drivers/test_thread.py::TestThreadOnAnyClock",
    "drivers/test_thread.py::TestThreadOverHeap",
    "drivers/test_trio.py::TestTrioOverHeap",
    "house/test_benchmarks.py",
    "house/test_docs.py::test_commands_of_a_page_run",
    "house/test_docs.py::test_the_python_of_a_page_runs",
    "house/test_free_threaded.py",
    "prove/test_simulation.py::test_a_faulty_engine_is_found",
    "scheduler/stores/test_file_store.py::TestFileStore::test_a_hundred_thousand",
    "scheduler/targets/test_amqp.py::TestAmqp::test_connections_are_reset",
    "scheduler/targets/test_kafka.py::TestKafka::test_connections_are_reset",
    "scheduler/targets/test_kafka.py::TestKafka::test_receiver_away",
    "scheduler/targets/test_nats.py::TestNats::test_connections_are_reset",
    "scheduler/targets/test_queues.py::TestCelery::test_connections_are_reset",
    "scheduler/targets/test_queues.py::TestDramatiq::test_connections_are_reset",
    "scheduler/targets/test_redis_stream.py::TestRedisStream::test_connections_are_reset",
    "service/page/test_screens.py",
    "wheels/test_cascading.py::TestSmallCascadingWheel",
    "wheels/test_hierarchical.py::TestSmallHierarchicalWheel",
    "wheels/test_rounds.py::TestSmallRoundsWheel",
    "wheels/test_single.py::TestSmallSingleWheel",
    "wheels/test_under_timers.py::TestCascadingUnderEngine",
    "wheels/test_under_timers.py::TestHierarchicalUnderEngine",
    "wheels/test_under_timers.py::TestRoundsUnderEngine",
)
"""
Tests that are always left to `make test-full`, unless `ALWAYS` has them.

They are the benchmarks' smoke tests, the code of the documents, the pictures of the page, engines with one fault each,
and variants of drivers and wheels. Others wait long for the circuit breaker, which all targets share; in the quick set
`TestWebhook` and `TestTaskiq` test it.
"""
SINGLE = (
    "cursor_from_now",
    "ends_what_it_cannot_read",
    "has_no_shares",
    "hears_nothing",
    "is_somebody_else_at_each_start",
    "never_looks_back",
    "sees_no_step",
    "takes_notes_unfenced",
    "trusts_ends_of_a_later_clock",
    "waits_for_a_statement_that_hangs",
)
"""Deliberate faults of engines that a simulated day shows only if the engine has no other fault."""


def of_stores(*names: str) -> tuple[str, ...]:
    """
    Return the names of tests of the store suite, for the main form of each store.
    """
    return tuple(f"{store}::{name}" for store in STORES for name in names)


ALWAYS: dict[str, tuple[str, ...]] = {
    "1 never early": ("prove/test_short.py::test_no_job_is_early", *of_stores("test_until_is_excluded")),
    "2 bounded lateness, 5 anything goes, 7 idle is free, 8 cancel gives back, 10a the surroundings": (
        "scheduler/test_clauses.py",
    ),
    "4 one outcome": of_stores("test_firing_against_the_caller", "test_settle_twice"),
    "11 acknowledged is durable": (
        "crash/test_kill9.py::test_nothing_is_lost",
        "crash/test_power_cut_of_a_node.py",
        "prove/test_short.py::test_power_cuts",
        "scheduler/stores/test_failover.py::test_no_number_is_given_out_twice",
    ),
    "3 ordered": of_stores("test_order"),
    "6 bounded work": of_stores("test_cursor"),
    "9 close is clean": of_stores("test_closed"),
    "10 any number is safe": of_stores("test_odd_keys", "test_any_instant"),
    "12 an answer is final": of_stores("test_old_generation_cannot_begin", "test_cancel_too_late"),
    "13 nothing goes quiet": of_stores("test_overdue", "test_look"),
    "14 an identity belongs to one life": of_stores("test_generations_are_never_used_twice", "test_zombie"),
    "15 fired only where it can run": of_stores("test_aside_set_aside"),
    "16 clocks": of_stores("test_redated"),
    "17 lanes do not share a fate": ("scheduler/test_bulkhead.py::test_one_hung_handler",),
    "18 a series keeps what it owes": of_stores("test_the_series_goes_along"),
    "19 our failures are not charged": of_stores("test_aside_take_up"),
    "20 every wait has an end": of_stores("test_close_ends_a_wait"),
    "simulation and its faulty engines": (
        "prove/test_simulation.py::test_minutes_without_violations[0]",
        "prove/test_simulation.py::test_minutes_without_violations[1]",
        "prove/test_simulation.py::test_minutes_without_violations[19]",
        "prove/test_simulation.py::test_faulty_engines_are_found_together",
        *(f"prove/test_simulation.py::test_a_faulty_engine_is_found[{name}]" for name in SINGLE),
    ),
    "faulty stores, wheels and models": (
        "testing/test_suites.py",
        "prove/test_protocol_model.py",
        "prove/test_history",
    ),
    "code of README and tutorial": tuple(
        f"house/test_docs.py::test_commands_of_a_page_run[{page}" for page in ("README.md", "docs/tutorial.md")
    ),
    "layers and public names": ("house/test_layers.py", "house/test_public_names.py"),
    "a view each, with axe": tuple(
        f"service/page/test_screens.py::test_the_view_is_accessible[{view}]"
        for view in (
            "overview-light-wide",
            "dead-dark-phone",
            "schedules-light-phone",
            "wheel-dark-wide",
            "job-light-wide",
            "fleet-dark-wide",
            "empty-light-phone",
            "away-dark-phone",
        )
    ),
}
"""
The tests that are always in the quick set, by the clause of the promise that they guard.

Each text is the beginning of a test's name.
"""


MUTANTS = (
    "prove/test_simulation.py::test_a_faulty_engine_is_found",
    "prove/test_simulation.py::test_faulty_engines_are_found_together",
    "testing/test_suites.py::test_a_faulty_store_fails",
    "testing/test_suites.py::test_a_faulty_wheel_fails",
    "timers/test_engine_machine.py::test_a_faulty_engine_is_found",
    "prove/test_protocol_model.py::test_each_known_fault_is_found",
)
"""Tests of which each case is a deliberate fault that has to be found. A case may have several faults, joined by +."""


def names(rows: tuple[str, ...]) -> set[str]:
    """
    Return the names of tests with the folder `tests/` before them.
    """
    return {f"tests/{row}" for row in rows}


def always() -> tuple[str, ...]:
    """
    Return the beginnings of the names of tests that are always in the quick set.
    """
    return tuple(f"tests/{row}" for rows in ALWAYS.values() for row in rows)


def lasts(costs: dict[str, tuple[float, float]], dear: set[str]) -> list[str]:
    """
    Return the test that stays quick in each file whose tests are all *dear* (too costly).

    This is the cheapest test of the file, if it is cheap enough.
    """
    files: dict[str, list[str]] = defaultdict(list)
    for name in costs:
        files[name.partition("::")[0]].append(name)
    cheapest = [min(names, key=costs.get) for names in files.values() if dear.issuperset(names)]
    return [name for name in cheapest if costs[name][0] <= SUITE_CPU_S]


def lines(costs: dict[str, tuple[float, float]], before: quick_set.QuickSet) -> list[str]:
    """
    Return the lines of the list: the forms of stores, and all other costly tests.

    If all cases of a test are costly, they have one line. A line with `!` names a test that stays quick, such as a
    smoke test of a form.
    """
    guarded = always()
    forms = set().union(*map(names, FORMS.values()))
    listed = forms | names(FULL)
    smoke = {f"{form}::{test}" for form in forms for test in SMOKE + SHARED_SMOKE}
    kept = {name for name in costs if name in smoke or (name.startswith(guarded) and quick_set.names_of(name) & listed)}
    cases: dict[str, set[str]] = defaultdict(set)
    dear: dict[str, set[str]] = defaultdict(set)
    for name, (cpu_s, wall_s) in costs.items():
        function = name.partition("[")[0]
        cases[function].add(name)
        usual_s = SUITE_CPU_S if "::Test" in name else CPU_S
        is_dear = cpu_s > GUARD_CPU_S if name.startswith(guarded) else cpu_s > usual_s or wall_s > WALL_S
        if is_dear and not quick_set.names_of(name) & listed:
            dear[function].add(name)
    for name in lasts(costs, set().union(*dear.values())):
        dear[name.partition("[")[0]].discard(name)
    for function, found in dear.items():
        listed |= {function} if found == cases[function] else found
    whole = {name.partition("::")[0] for name in costs if not before.is_quick(name)}
    measured = set().union(*map(quick_set.names_of, costs.keys() - before.kept))
    listed |= {line for line in before.listed - measured if line.partition("::")[0] not in whole}
    listed = {line for line in listed if not (quick_set.names_of(line) - {line}) & listed}
    kept |= {line for line in before.kept if line in costs or line.partition("::")[0] not in whole}
    return sorted([*listed, *(f"!{line}" for line in kept)], key=lambda line: (line.lstrip("!"), line))


def list_mutants() -> None:
    """
    Print for each deliberate fault which command finds it: `make test`, or only `make test-full`.
    """
    files = sorted({f"tests/{row.partition('::')[0]}" for row in MUTANTS})
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    listed = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout.splitlines()
    cases = [name for name in listed if name.startswith(tuple(f"tests/{row}[" for row in MUTANTS))]
    chosen = quick_set.read()
    faults = {name: name.partition("[")[2][:-1].split("+") for name in cases}
    found = dict.fromkeys(fault for name in cases for fault in faults[name])
    quick = {fault for name in cases if chosen.is_quick(name) for fault in faults[name]}
    for fault in found:
        print(f"{'test' if fault in quick else 'test-full':10} {fault}")
    print(f"make test finds {len(quick)} of {len(found)}")


def main() -> None:
    """
    Read the logs and write the list.

    Print how many tests are quick, and how much time they take.
    """
    if sys.argv[1:] == ["--mutants"]:
        list_mutants()
        return
    costs = {}
    for path in sys.argv[1:]:
        for line in Path(path).read_text("utf-8").splitlines():
            name, cpu_s, wall_s, _ = json.loads(line)
            costs[name] = max((cpu_s, wall_s), costs.get(name, (0.0, 0.0)))
    found = lines(costs, quick_set.read())
    head = "# What `make test` leaves to `make test-full`: written by `make test-times`, from the durations of a run."
    quick_set.LIST.write_text("\n".join([head, *found, ""]), "utf-8")
    quick = [name for name in costs if quick_set.read().is_quick(name)]
    print(
        f"{len(quick)} of {len(costs)} tests are quick, with {sum(costs[name][0] for name in quick):.0f} s of CPU of "
        f"{sum(cpu_s for cpu_s, _ in costs.values()):.0f}, and {sum(costs[name][1] for name in quick):.0f} s of "
        f"{sum(wall_s for _, wall_s in costs.values()):.0f}"
    )


if __name__ == "__main__":
    main()
