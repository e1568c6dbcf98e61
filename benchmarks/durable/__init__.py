"""
The durable scheduler on SQLite and PostgreSQL.

It is compared with a bare loop of the same SQL and with three peers.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.durable import bulk, far, far_cycle, file, hops, kept, kinds, network, peers, shares, single, waiting
from benchmarks.durable.server import SETTINGS, postgres
from benchmarks.machine import file_system
from benchmarks.model import Bar, Case, Measure

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

MILLION = 1_000_000
MANY = 10 * MILLION
SHARES = "shares"
BULK = "bulk"
CYCLE = "set+fire+settle"
SINGLE = "set+fire+settle, 16 callers"
PUNCTUAL = "lateness"
RESTART = "restart"

CONDITIONS = {
    "all": (
        "SQLite: a file in the working folder, WAL, synchronous=FULL. PostgreSQL: a server of its own in the folder "
        "for temporary files, reached by a Unix socket, fsync and synchronous_commit on, "
        f"{', '.join(SETTINGS)}. Payloads of 100 bytes, random keys, and so many jobs there already, due in "
        "a year, as are pending"
    ),
    CYCLE: (
        "jobs due now, set by set_many in batches of 1,000, handed to a handler that does nothing, settled; from the "
        "first set until the last is settled. bare-sql does the store's own statements in three transactions for each "
        "1,000: set, begin, end; it leaves out all else, from the check of a request to the call of a handler, and "
        "knows its jobs to be new and side by side. tickwheel-postgres writes on two connections. Peers do the same "
        "with what they offer, on fewer jobs: APScheduler and Huey on SQLite with fsync, procrastinate on PostgreSQL "
        "by batch_defer"
    ),
    SINGLE: (
        "the same, one set a call from 16 threads, each waiting for its answer; bare-sql: the same statements from one "
        "thread, three transactions for each job"
    ),
    PUNCTUAL: (
        "one job each millisecond, set some seconds ahead: time.time() in the handler minus due_at, and how many jobs "
        "came early"
    ),
    RESTART: (
        "a new process: from the call of start to the first firing of a job that fell due while nobody ran; the memory "
        "that it takes then, by pending job; and the time of one look-up of what is due, which finds nothing"
    ),
    far.SETS: (
        f"set_many in lots of {far.LOT:,}, random keys, random instants over 30 days, into a file whose pages are as "
        "such sets leave them and not in memory; then as many of the keys that were there, drawn at random, at other "
        "instants (far moves); then cancel_many of as many others; then an owner sorts the slots of two days (far "
        "cascade). bare-sql does the store's own statements, a thousand jobs in a transaction; in-order does it with "
        "the tables of a prototype, whose slots are days. written and read: bytes that the process passed to write "
        "and read calls, the move of the log into the file included; to disk and from disk: what the kernel puts "
        "down for the disk, which may count a whole folio where a page of it was "
        f"changed; the file system is {file_system(Path.cwd())}. log: bytes of the server's log. Each for one "
        "operation. Then single sets by one caller, into this file and an empty one in turns, and a restart as above"
    ),
    far_cycle.CYCLE: (
        "set_many in batches of 1,000 with random keys and instants over 30 days while nobody fires, then an owner "
        "starts and fires as many of those pending, which fell due before it; near: the same with jobs due now, on the "
        "same server. From the first set until the last is settled, without the time between the two"
    ),
    kept.WORK: (
        "set_many in batches of 1,000, fired by a handler that does nothing, settled; CPU of the process for a job, in "
        f"{kept.ROUNDS} rounds that keep the usual history, none, or all in turns, of each the lower quartile"
    ),
    kinds.WORK: (
        "set_many in batches of 1,000 (burst: one call for all), fired by a handler that does nothing, settled; then "
        "bulk verbs on jobs an hour ahead, and runs of jobs that recur each second, with the wait for the second. CPU "
        f"of the process for a job, in {kinds.ROUNDS} rounds in turns, of each the lower quartile; on SQLite also in "
        "multiples of a cycle by bare SQL in the same turns"
    ),
    SHARES: (
        "jobs set 1,000 a call and settled, due at once and spread over two seconds, and bare SQL as above on the same "
        f"file, in {shares.ROUNDS} rounds in turns, by processor time of the process; the median of the shares. Spread "
        "jobs are claimed and settled by bare SQL in the order of their due times, a thousand in a transaction, once "
        "all are set. collector: the processor time of Python's cyclic garbage collector in the cycles due at once"
    ),
    BULK: (
        "cycles due at once, and sets of jobs an hour ahead, 1,000 a call by one owner, and three bare statements for "
        f"each 1,000 rows (insert, update, delete) on a table like the store's, in {bulk.ROUNDS} rounds in turns; the "
        "medians. Processor time of the client, and of all processes of the server; statements as the server counts "
        "them in pg_stat_statements, which is loaded for it"
    ),
    single.WORK: (
        "set, move and cancel, one job a call, by one caller that waits for each, and a bare insert with its commit "
        f"into a SQLite file or the same server, in {single.ROUNDS} rounds in turns, of each the lower quartile: "
        f"processor time of the process, and wall time. Then firings {single.APART_MS} ms apart, by the processor time "
        "of the process for each, the waits between them included, and by the commits of the writer"
    ),
    hops.WORK: (
        "one job on memory://, set by a caller that waits, fired 0.3 s later by a handler that does nothing, settled: "
        "the calls of tickwheel's functions of Python in all threads, and the files of these functions"
    ),
}
NO_SLOWER = {
    kinds.HOOK: 4.2,
    kinds.TRACING: 9.1,
    kinds.KNOWN: 3.1,
    kinds.MOVES: 3.65,
    kinds.CANCELS: 2.5,
    kinds.SERIES: 12.9,
}
"""
Maximum cost of each kind of job, as a multiple of the cost by bare SQL (a plain loop of the store's statements).

Each limit is 5 % above an earlier measurement.
"""
BARS = (
    Bar(CYCLE, clock="wall", at_least=100_000),
    Bar(CYCLE, clock="wall", against="bare-sql", inverse=True),  # includes waits; `shares` compares CPU time
    Bar(CYCLE, subject="tickwheel-postgres", clock="wall", at_least=70_000),
    Bar(shares.DUE, at_least=0.6),
    Bar(shares.SPREAD, at_least=0.55),
    Bar(shares.COLLECTOR, at_most=5),
    Bar(bulk.CYCLE, subject="tickwheel-postgres", at_most=8_000),
    Bar(bulk.STATEMENTS, subject="tickwheel-postgres", clock="", at_most=4),
    Bar(f"{bulk.CYCLE}: server over bare", subject="tickwheel-postgres", at_most=1),
    Bar(bulk.SETS, subject="tickwheel-postgres", at_most=5_000),
    Bar(f"{bulk.SETS}: server over bare", subject="tickwheel-postgres", at_most=1.2),
    *(Bar(kinds.in_bare(work), at_most=most) for work, most in NO_SLOWER.items()),
    Bar(CYCLE, clock="wall", against="apscheduler", inverse=True),
    Bar(CYCLE, clock="wall", against="huey", inverse=True),
    Bar(CYCLE, subject="tickwheel-postgres", clock="wall", against="procrastinate", inverse=True),
    Bar(SINGLE, clock="wall", against="bare-sql", inverse=True),
    *(
        bar
        for subject in ("tickwheel", "tickwheel-postgres")
        for bar in (
            Bar("lateness p50", subject=subject, clock="wall", at_most=3),
            Bar("lateness p99", subject=subject, clock="wall", at_most=10),
            Bar("early", subject=subject, clock="", at_most=0),
            Bar("due look-up", subject=subject, clock="wall", at_most=1),
            Bar("restart", subject=subject, clock="wall", at_most=2),
        )
    ),
    *(
        bar
        for work in (far.SETS, far.MOVES, far.CANCELS)
        for bar in (
            Bar(work, clock="wall", pending=MILLION, at_least=60_000),
            Bar(work, clock="wall", pending=MANY, at_least=40_000),
            Bar(
                work,
                clock="wall",
                pending=MANY,
                against="tickwheel",
                against_pending=MILLION,
                inverse=True,
                at_least=0.7,
            ),
            Bar(work, clock="wall", against="bare-sql", inverse=True),
            Bar(f"{work}: written", clock="", at_most=3_000),
            Bar(f"{work}: from disk", clock="", at_most=1_000),
        )
    ),
    *(Bar(kept.WORK, subject=subject, at_most=102) for subject in ("tickwheel", "tickwheel-postgres")),
    *(
        Bar(work, subject=subject, at_most=most * 1_000)
        for subject, bars in (
            ("tickwheel", {single.WORK: 130, "single move": 150, "sparse firing": 300}),
            (
                "tickwheel-postgres",
                {single.WORK: 150, "single move": 150, "single cancel": 150, "sparse firing": 600},
            ),
        )
        for work, most in bars.items()
    ),
    *(
        Bar(work, subject="tickwheel-postgres", clock="wall", at_most=500_000)
        for work in (single.WORK, "single move", "single cancel")
    ),
    Bar(hops.WORK, subject="tickwheel-memory", clock="", at_most=150),
    Bar(hops.FILES, subject="tickwheel-memory", clock="", at_most=20),
    Bar("disk per pending job", clock="", at_most=240),
    Bar(far.SINGLES, clock="wall", at_least=0.8),
    Bar(far.RESTART, clock="wall", at_most=1),
    Bar(far.MEMORY, clock="", at_most=143),  # in MiB; this is 150 MB
    *(
        Bar(far.SETS, subject=subject, pending=MILLION, at_most=12_000)
        for subject in ("tickwheel", "tickwheel-postgres")
    ),
    Bar(f"{far.SETS}: written", clock="", pending=MILLION, at_most=2_400),
    Bar(f"{far.SETS}: log", subject="tickwheel-postgres", clock="", at_most=2_000),
    Bar(
        far_cycle.CYCLE,
        subject="tickwheel-postgres",
        clock="wall",
        against="tickwheel-postgres",
        against_work=far_cycle.NEAR_CYCLE,
        inverse=True,
        at_least=0.77,  # so the far cycle is at most 30 % slower
    ),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases.
    """
    sizes = (0, 100_000) if quick else (0, MILLION)
    count = 20_000 if quick else 60_000
    reps = 1 if quick else 5
    found = [
        Case(__name__, work, subject, size, {"count": number}, reps)
        for work, number in ((CYCLE, count), (SINGLE, count // 20))
        for size in sizes
        for subject in ("bare-sql", "tickwheel")
    ]
    found += [Case(__name__, CYCLE, "tickwheel-postgres", size, {"count": count}, reps) for size in sizes]
    few = {"apscheduler": 500, "huey": 5_000, "procrastinate": 2_000}
    found += [
        Case(__name__, CYCLE, peer, 0, {"count": number}, 1) for peer, number in few.items() if peers.is_here(peer)
    ]
    for subject in ("tickwheel", "tickwheel-postgres"):
        found.append(Case(__name__, PUNCTUAL, subject, sizes[-1], {"count": 3_000 if quick else 10_000}, 1))
        found += [Case(__name__, RESTART, subject, size, {}, 1) for size in sizes]
        found.append(Case(__name__, kept.WORK, subject, 0, {"count": 8_000 if quick else 16_000}))
        found.append(Case(__name__, kinds.WORK, subject, 100_000, {"count": 2_000 if quick else 10_000}, 1))
        found.append(
            Case(__name__, single.WORK, subject, 100_000 if quick else 500_000, {"count": 800 if quick else 4_000})
        )
    cycles = {"count": 10_000 if quick else 20_000}
    found.append(Case(__name__, SHARES, "tickwheel", 100_000, cycles, 1))
    found.append(Case(__name__, BULK, "tickwheel-postgres", 100_000, {"count": 20_000 if quick else 60_000}, 1))
    found.append(Case(__name__, hops.WORK, "tickwheel-memory", 0, {}, 1))
    found += [
        Case(__name__, far.SETS, subject, size, {"count": far.LOT if quick else 5 * far.LOT}, 1)
        for size in (sizes[1:] if quick else (MILLION, MANY))
        for subject in ("bare-sql", "in-order", "tickwheel", "tickwheel-postgres")
        if size < MANY or subject != "in-order"
    ]
    found.append(
        Case(__name__, far_cycle.CYCLE, "tickwheel-postgres", sizes[-1] if quick else MANY, {"count": far.LOT}, 1)
    )
    return found


def measure(work: str, subject: str, pending: int, *, count: int = 0) -> list[Measure]:
    """
    Run one case in this process.
    """
    keys = file.drawn(count)
    if subject in peers.PEERS:
        return [Measure(CYCLE, count / peers.PEERS[subject](keys), "per second", "wall")]
    if work == BULK:
        return bulk.measure(pending, keys)
    return (_on_server if subject == "tickwheel-postgres" else _on_file)(work, subject, pending, keys)


def _on_server(work: str, _subject: str, pending: int, keys: list[str]) -> list[Measure]:
    with postgres() as url:
        works = {far.SETS: far.on_server, far_cycle.CYCLE: far_cycle.cycles}
        if work in works:
            return works[work](url, pending, keys)
        network.fill(url, pending)
        return _measure(work, url, pending, keys)


def _on_file(work: str, subject: str, pending: int, keys: list[str]) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        path = Path(folder, "jobs.db")
        if work == far.SETS:
            return far.on_file(path, subject, pending, keys)
        file.fill(path, pending)
        if work == SHARES:
            return shares.measure(path, keys)
        if subject == "bare-sql":
            begin = time.perf_counter()
            file.bare(path, keys, file.BATCH if work == CYCLE else 1)
            return [Measure(work, len(keys) / (time.perf_counter() - begin), "per second", "wall")]
        return _measure(work, f"sqlite:///{path}", pending, keys)


def _measure(work: str, url: str, pending: int, keys: list[str]) -> list[Measure]:
    if work == hops.WORK:
        return hops.path_of_a_job("memory://")
    works = {
        PUNCTUAL: waiting.lateness,
        kept.WORK: kept.costs,
        kinds.WORK: kinds.costs,
        single.WORK: single.costs,
    }
    if work in works:
        return works[work](url, keys)
    if work == RESTART:
        return waiting.restart(url, pending)
    seconds = file.scheduled(url, keys, file.in_bulk if work == CYCLE else file.by_callers)
    return [Measure(work, len(keys) / seconds, "per second", "wall")]
