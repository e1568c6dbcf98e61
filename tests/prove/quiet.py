"""
The proof that no job is silent: under difficult conditions, but without a crash, each job still fires in time.

    python tests/prove/quiet.py statistics|peer|equipment|rates|receiver [--seconds 20] --store URL

The argument names the condition:

    statistics  PostgreSQL has planned for empty tables, and then a burst of jobs is set
    peer        the only node is behind a proxy, whose connections repeatedly accept data and return none
    equipment   of three nodes, one lacks a zone's data, one the library for cron lines, and one a handler
    rates       the clocks of three nodes run a tenth slower, a twentieth faster and a tenth faster than the server's
    receiver    a webhook's receiver takes twenty messages a second, and answers all others with 429 and Retry-After

Jobs are set, moved and cancelled. The nodes report each firing through a pipe, and this process adds the server's time.
The longest silence is the largest lateness of a job. For `receiver` it is the longest time between two accepted
messages.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zoneinfo
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from servers import SUPPORT
from sigstop import until

from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import Firing, RetryPolicy, Scheduler, SetRequest
from tickwheel.targets.webhook import WebhookTarget

assert SUPPORT in sys.path
from lines import Line  # noqa: E402 - in the path that `servers` made

__all__ = ["ROWS", "Result", "prove"]

HERE: Final = Path(__file__).resolve().parent
SILENT_S: Final = 5.0
PATIENCE_S: Final = 90.0
BURST: Final = 10_000
ZONE: Final = "Proof/Zone"
A_SECOND: Final = 20
"""Number of messages that a full receiver accepts in a second."""


@dataclass(slots=True)
class Told:
    """
    The answers to callers, and the firings.

    Attributes:
        due: The due time of each acknowledged job by key, in seconds.
        cancelled: The time of the answer to each cancel, by key.
        doubted: The keys of calls with an unknown outcome.
        fired: For each firing its key, the store's time, and the time of its arrival here, in seconds.
    """

    due: dict[str, float] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)
    fired: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Result:
    """
    The counts for one difficult condition.
    """

    acknowledged: int
    lost: int
    early: int
    overtaken: int
    dead: int
    silent_s: float
    more: str = ""

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.early or self.overtaken or self.dead) and 0 <= self.silent_s <= SILENT_S

    def __str__(self) -> str:
        wrong = f"lost {self.lost}, early {self.early}, overtaken {self.overtaken}, dead {self.dead}"
        return f"acknowledged {self.acknowledged}, {wrong}, longest silence {self.silent_s:.1f} s{self.more}"


def own(url: str, handlers: list[str]) -> None:
    """
    Run a node until standard input ends.
    """
    scheduler = Scheduler(url)

    def work(_payload: object, firing: Firing) -> None:
        os.write(1, f"{firing.job.key} {firing.job.due_at}\n".encode())

    for name in handlers:
        scheduler.handler(name)(work)
    with scheduler:
        os.write(1, b"up\n")
        sys.stdin.read()


class Nodes:
    """
    The processes that fire jobs.

    *told* records their firings.
    """

    def __init__(self, told: Told) -> None:
        self._told = told
        self._nodes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []

    def start(self, url: str, *handlers: str, **environment: str) -> None:
        command = [sys.executable, str(HERE / "quiet.py"), "own", "--store", url, "--handlers", *handlers]
        node = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        self._nodes.append(node)
        assert node.stdout is not None
        assert node.stdout.readline() == "up\n"
        self._readers.append(threading.Thread(target=self._read, args=(node.stdout,)))
        self._readers[-1].start()

    def _read(self, lines: Any) -> None:
        for line in lines:
            at = time.time()
            key, due_at = line.split()
            self._told.fired.append((key, int(due_at) / 1000, at))

    def stop(self) -> None:
        nodes, readers, self._nodes, self._readers = self._nodes, self._readers, [], []
        for node in nodes:
            assert node.stdin is not None
            node.stdin.close()
        for node in nodes:
            try:
                node.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        for reader in readers:
            reader.join()


@contextmanager
def nodes_of(told: Told) -> Iterator[Nodes]:
    """
    Provide nodes that are stopped at the end of the `with` block.
    """
    nodes = Nodes(told)
    try:
        yield nodes
    finally:
        nodes.stop()


class Callers:
    """
    Sets, moves and cancels jobs of *handlers* in a separate thread, until `end` is called.
    """

    def __init__(self, url: str, told: Told, handlers: tuple[str, ...], seed: int, **rule: Any) -> None:
        self._client, self._told, self._handlers, self._rule = Scheduler(url), told, handlers, rule
        self._dice = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def client(self) -> Scheduler:
        """
        The scheduler that makes the calls.
        """
        return self._client

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._client.stop()

    def end(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        dice, number = self._dice, 0
        while not self._is_over.wait(0.01):
            number += 1
            key, handler = f"job-{number}", dice.choice(self._handlers)
            self._ask(self._client.set, key, delay=dice.uniform(0, 2), handler=handler, **self._rule)
            if dice.random() < 0.2:
                self._ask(self._client.move, f"job-{dice.randint(max(1, number - 50), number)}", delay=1)
            if dice.random() < 0.1:
                self._ask(self._client.cancel, f"job-{dice.randint(max(1, number - 50), number)}")

    def _ask(self, verb: Callable[..., Any], key: str, **fields: Any) -> None:
        told = self._told
        try:
            answer = verb(key, **fields)
        except StoreError as error:
            if error.is_unknown:
                told.doubted.add(key)
            return
        if answer.outcome == "cancelled":
            told.due.pop(key, None)
            told.cancelled[key] = time.time()
        elif answer.outcome in ("created", "moved"):
            told.due[key] = answer.job.due_at / 1000


def judged(told: Told, client: Scheduler, nodes: Nodes, more: str = "") -> Result:
    """
    Let the remaining jobs fire, and stop the *nodes*. Return the result.
    """
    until(lambda: drained(client))
    nodes.stop()
    last = {key: (due, at) for key, due, at in told.fired}
    certain = {key: due for key, due in told.due.items() if key not in told.doubted}
    return Result(
        acknowledged=len(told.due) + len(told.cancelled),
        lost=len(certain.keys() - last.keys()),
        early=sum(at < due for _, due, at in told.fired),
        overtaken=sum(at > told.cancelled.get(key, at) for key, _, at in told.fired if key not in told.doubted),
        dead=client.stats()["dead"],
        silent_s=max((at - due for _, due, at in told.fired), default=PATIENCE_S),
        more=more,
    )


def drained(client: Scheduler) -> bool:
    """
    Return True if no one-time job is left.
    """
    with suppress(StoreError):
        return not any(job.recurrence is None for job in client.list(limit=1_000).jobs)
    return False


def statistics(url: str, seconds: float, seed: int) -> Result:
    """
    Repeatedly make the server believe that its tables are empty, and then set a burst of jobs.
    """
    import psycopg  # noqa: PLC0415 - this row needs it alone

    told = Told()
    with nodes_of(told) as nodes, psycopg.connect(url.partition("&lease_s")[0], autocommit=True) as server:
        nodes.start(url, "h")
        with Callers(url, told, ("h",), seed) as callers:
            client = callers.client
            ends = time.monotonic() + seconds
            for turn in range(100):
                server.execute("VACUUM ANALYZE")
                with server.transaction():  # as they are after the tables were emptied
                    server.execute("UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE relname LIKE 'tickwheel%'")
                requests = [SetRequest(f"burst-{turn}-{n}", delay=1, handler="h") for n in range(BURST // 10)]
                for first in range(0, len(requests), 1_000):
                    for answer in client.set_many(requests[first : first + 1_000]):
                        assert answer.job is not None
                        told.due[answer.job.key] = answer.job.due_at / 1000
                if time.monotonic() > ends:
                    break
            callers.end()
            return judged(told, client, nodes)


def peer(url: str, seconds: float, seed: int) -> Result:
    """
    Repeatedly silence the connections of the only node.

    New connections work.
    """
    told, dice, count = Told(), random.Random(seed), 0
    line, far = line_to(url)
    try:
        with nodes_of(told) as nodes, ExitStack() as stack:
            nodes.start(far, "h")  # started before there are jobs, so that its first line reports that it is up
            callers = stack.enter_context(Callers(url, told, ("h",), seed))
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                time.sleep(dice.uniform(1.0, 4.0))  # the connection works during this time
                line.silence()
                count += 1
            callers.end()
            return judged(told, callers.client, nodes, f", {count} times dumb")
    finally:
        line.close()


def line_to(url: str) -> tuple[Line, str]:
    """
    Return a proxy for the server of *url*, and the URL of the proxy.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix":
        line = Line(parts.path)
        return line, f"redis://127.0.0.1:{line.port}/0?{parts.query}"
    settings = dict(each.split("=", 1) for each in parts.query.split("&"))
    line = Line(f"{settings.pop('host')}/.s.PGSQL.5432")
    return line, f"postgresql://{settings['user']}@127.0.0.1:{line.port}{parts.path}?lease_s={settings['lease_s']}"


def equipment(url: str, seconds: float, seed: int) -> Result:
    """
    Let nodes lack a zone, a library and a handler, while recurring jobs need all three.
    """
    told = Told()
    with tempfile.TemporaryDirectory() as made, nodes_of(told) as nodes:
        folder = Path(made)
        for name in ("zones/Proof", "none", "hidden"):
            (folder / name).mkdir(parents=True)
        data = files("tzdata.zoneinfo").joinpath("Etc/GMT-1").read_bytes()
        (folder / "zones" / ZONE).write_bytes(data)
        (folder / "hidden" / "cronsim.py").write_text("raise ImportError('not installed')\n")
        zones, hidden = str(folder / "zones"), str(folder / "hidden")
        zoneinfo.reset_tzpath(to=[zones])
        nodes.start(url, "h", "other", PYTHONTZPATH=str(folder / "none"))
        nodes.start(url, "h", "other", PYTHONTZPATH=zones, PYTHONPATH=hidden)
        nodes.start(url, "h", PYTHONTZPATH=zones)
        nodes.start(url, "h", "other", PYTHONTZPATH=zones)
        with Callers(url, told, ("h", "other"), seed) as callers:
            client = callers.client
            series = [f"series-{number}" for number in range(12)]
            for number, key in enumerate(series):
                rule: dict[str, Any] = [
                    {"cron": "*/2 * * * * *", "tz": ZONE},
                    {"cron": "*/2 * * * * *"},
                    {"every": 2, "tz": ZONE, "exclude": ["2041-05-01"]},
                ][number % 3]
                client.set(key, handler=("h", "other")[number % 2], retry=RetryPolicy(attempts=3), **rule)
            time.sleep(seconds)  # the series run during this time
            callers.end()
            result = judged(told, client, nodes)
            runs = Counter(key for key, _, _ in told.fired)
            ended = [key for key in series if client.get(key) is None or runs[key] < seconds / 2 - SILENT_S]
            client.cancel_many(series)
            more = f", {sum(runs[key] for key in series)} runs of {len(series)} series"
            acknowledged, lost = result.acknowledged + len(series), result.lost + len(ended)
            return replace(result, acknowledged=acknowledged, lost=lost, more=more)


def rates(url: str, seconds: float, seed: int) -> Result:
    """
    Let the clocks of three nodes run slower or faster than the server's clock.
    """
    compiler = shutil.which("cc")
    assert compiler is not None, "the rates of clocks need a C compiler: install one"
    told = Told()
    with tempfile.TemporaryDirectory() as made, nodes_of(told) as nodes:
        library = Path(made) / "rated_clock.so"
        source = str(HERE / "rated_clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), source, "-ldl"], check=True)
        for rate in ("0.9", "1.05", "1.1"):
            nodes.start(url, "h", LD_PRELOAD=str(library), CLOCK_RATE=rate)
        with Callers(url, told, ("h",), seed) as callers:
            time.sleep(seconds)  # the callers continue during this time
            callers.end()
            return judged(told, callers.client, nodes)


class Receiver(ThreadingHTTPServer):
    """
    A receiver that accepts a few messages a second, and refuses all others with a Retry-After of a second.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.taken: dict[str, float] = {}
        self.requests: list[float] = []
        self._last: deque[float] = deque()
        self._lock = threading.Lock()

    def has_room(self, key: str) -> bool:
        now = time.time()
        with self._lock:
            self.requests.append(now)
            while self._last and self._last[0] <= now - 1.0:
                self._last.popleft()
            if len(self._last) >= A_SECOND:
                return False
            self._last.append(now)
            self.taken.setdefault(key, now)
            return True


class Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver = self.server
        assert isinstance(receiver, Receiver)
        has_room = receiver.has_room(json.loads(body))
        self.send_response(204 if has_room else 429)
        if not has_room:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def receiver(url: str, seconds: float, seed: int) -> Result:
    """
    Send a burst to a receiver that accepts a few messages a second.
    """
    count = int(A_SECOND * seconds / 1.5)
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/"
    told, dice = Told(), random.Random(seed)
    target = WebhookTarget(allow=("127.0.0.0/8",))
    try:
        with Scheduler(url, targets={"webhook": target}) as scheduler:
            scheduler.start()
            keys = [f"message-{number}" for number in range(count)]
            start = time.time()
            answers = scheduler.set_many(
                [
                    SetRequest(key, delay=dice.uniform(0, 1), target="webhook", handler=address, payload=key)
                    for key in keys
                ]
            )
            told.due = {answer.job.key: answer.job.due_at / 1000 for answer in answers if answer.job is not None}
            until(lambda: drained(scheduler))
            took_s = time.time() - start
            dead = scheduler.stats()["dead"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    taken = sorted(server.taken.values())
    silent_s = max(later - at for at, later in zip([start, *taken], taken, strict=False))
    early = sum(at < told.due[key] for key, at in server.taken.items())
    more = f", {len(server.requests) / count:.2f} requests a job, {took_s / (count / A_SECOND):.2f} of the least time"
    return Result(len(told.due), len(told.due.keys() - server.taken.keys()), early, 0, dead, silent_s, more)


ROWS: Final[dict[str, Callable[[str, float, int], Result]]] = {
    "statistics": statistics,
    "peer": peer,
    "equipment": equipment,
    "rates": rates,
    "receiver": receiver,
}


def prove(row: str, url: str, seconds: float, seed: int) -> Result:
    return ROWS[row](url, seconds, seed)


def main() -> int:
    """
    Run one node if the command line requests it.

    Otherwise run the proof, and print one line. Return 1 if the proof failed.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=[*ROWS, "own"])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", default="", metavar="URL")
    parser.add_argument("--handlers", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row == "own":
        own(options.store, options.handlers)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with ExitStack() as stack:
        url = options.store or f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/jobs.db"
        result = prove(options.row, url, options.seconds, seed)
    print(f"{result}, seed {seed}")
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
