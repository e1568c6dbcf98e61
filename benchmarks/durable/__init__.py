"""
The durable scheduler on SQLite and PostgreSQL, compared with a bare loop of the same SQL and three peers.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.durable import far, far_cycle, file, hops, kept, kinds, network, peers, single, waiting
from benchmarks.durable.server import SETTINGS, postgres
from benchmarks.machine import file_system
from benchmarks.model import Bar, Case, Measure

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

MILLION = 1_000_000
MANY = 10 * MILLION
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
        f"of the process for a job, in {kinds.ROUNDS} rounds in turns, of each the lower quartile"
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
BARS = (
    Bar(CYCLE, clock="wall", at_least=20_000),
    Bar(CYCLE, clock="wall", pending=MILLION, at_least=37_000),
    Bar(CYCLE, clock="wall", against="bare-sql", inverse=True, at_least=0.6),
    Bar(CYCLE, subject="tickwheel-postgres", clock="wall", at_least=30_000),
    Bar(CYCLE, clock="wall", against="apscheduler", inverse=True),
    Bar(CYCLE, clock="wall", against="huey", inverse=True),
    Bar(CYCLE, subject="tickwheel-postgres", clock="wall", against="procrastinate", inverse=True),
    Bar(SINGLE, clock="wall", against="bare-sql", inverse=True),
    *(
        bar
        for subject in ("tickwheel", "tickwheel-postgres")
        for bar in (
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
    Bar(hops.WORK, subject="tickwheel-memory", clock="", at_most=150),
    Bar(hops.FILES, subject="tickwheel-memory", clock="", at_most=20),
    Bar("disk per pending job", clock="", at_most=240),
    Bar(far.SINGLES, clock="wall", at_least=0.8),
    Bar(far.RESTART, clock="wall", at_most=1),
    Bar(far.MEMORY, clock="", at_most=143),  # MiB: 150 MB
    Bar(f"{far.SETS}: log", subject="tickwheel-postgres", clock="", at_most=2_000),
    Bar(
        far_cycle.CYCLE,
        subject="tickwheel-postgres",
        clock="wall",
        against="tickwheel-postgres",
        against_work=far_cycle.NEAR_CYCLE,
        inverse=True,
        at_least=0.77,  # that is at most 30 % slower
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
        found.append(Case(__name__, single.WORK, subject, 100_000, {"count": 800 if quick else 4_000}))
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
    if subject == "tickwheel-postgres":
        with postgres() as url:
            works = {far.SETS: far.on_server, far_cycle.CYCLE: far_cycle.cycles}
            if work in works:
                return works[work](url, pending, keys)
            network.fill(url, pending)
            return _measure(work, url, pending, keys)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        path = Path(folder, "jobs.db")
        if work == far.SETS:
            return far.on_file(path, subject, pending, keys)
        file.fill(path, pending)
        if subject == "bare-sql":
            begin = time.perf_counter()
            file.bare(path, keys, file.BATCH if work == CYCLE else 1)
            return [Measure(work, count / (time.perf_counter() - begin), "per second", "wall")]
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
