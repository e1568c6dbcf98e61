"""
Our alert rules in a real Prometheus, while all incidents take place at the same time.

Each incident has its own services, store and job name in Prometheus. Prometheus runs `FACTOR` times as fast as in
production. Times in this file are the times of the original rules.
"""

from __future__ import annotations

import http.server
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from lines import Line
from processes import find
from prometheus_servers import DOCS, Prometheus, seconds, shortened
from serve_nodes import Node

ROOT = Path(__file__).parents[2]
FACTOR = 12
SHARDS = 4
PATIENCE_S = 120
TIMES = re.compile(r"\[\w+\]|(?<=_seconds\)) > [\d.]+")
BUSY = ("steady/one", "steady/two", "steady/three", "steady/four")
"""Recurring jobs for each store, which fire often enough that every metric has a value."""

# ---- what happens ----------------------------------------------------------------------------------------------------


@dataclass
class Expected:
    """
    An alert that an incident causes.

    Attributes:
        alert: The name of the alert.
        labels: Labels of the alert, besides `job`. The label `instance` is the number of a node here.
        says: Words that the summary of the alert contains.
        is_cause: False if the alert only follows from the cause, and may or may not fire.
    """

    alert: str
    labels: dict = field(default_factory=dict)
    says: str = ""
    is_cause: bool = True


@dataclass
class Incident:
    """
    An incident that a test causes, and the alerts that it must raise.

    *plot* is a generator function, which starts the services, causes the incident, and ends it.
    """

    plot: object
    expected: list
    lasts: str = "10m"


INCIDENTS = {}


def incident(*expected, lasts="10m"):
    """
    Register the decorated generator function as an incident with the name of the function.
    """

    def register(plot):
        INCIDENTS[plot.__name__] = Incident(plot, expected, lasts)
        return plot

    return register


@incident(lasts="15m")
def nothing(stage):
    """
    Two nodes are healthy all the time, so no alert may fire.
    """
    url = stage.database(stage.postgres)[1]
    stage.scrape(stage.node(url), stage.node(url))
    yield


@incident(
    Expected("TickwheelStoreDown", {"instance": 0}, "gets no answer from its store"),
    Expected("TickwheelStoreDown", {"instance": 1}, "gets no answer from its store"),
)
def store_down(stage):
    """
    The server of the store stops while two nodes use the store.
    """
    server = stage.make_postgres()
    url = stage.database(server)[1]
    stage.scrape(stage.node(url), stage.node(url))
    yield
    server.stop()
    yield
    server.start()


@incident(Expected("TickwheelStoreDown", {"instance": 1}, "gets no answer from its store"))
def store_out_of_reach(stage):
    """
    The connection between one of two nodes and the server of the store goes silent, without an error.
    """
    name, url = stage.database(stage.postgres)
    line = stage.line(stage.postgres)
    there = f"postgresql://tick@127.0.0.1:{line.port}/{name}?shards={SHARDS}&lease_s={stage.lease_s}"
    stage.scrape(stage.node(url), stage.node(there))
    yield
    line.cut()
    yield
    line.mend()


@incident(
    Expected("TickwheelStoreReadOnly", {"instance": 0}, "cannot write to it"),
    Expected("TickwheelStoreReadOnly", {"instance": 1}, "cannot write to it"),
)
def store_read_only(stage):
    """
    An administrator makes the database read-only.
    """
    name, url = stage.database(stage.postgres)
    stage.scrape(stage.node(url), stage.node(url))
    reconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE '%read_only'"
    yield
    stage.postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    stage.postgres.execute(reconnect)
    yield
    stage.postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    stage.postgres.execute(reconnect)


@incident(Expected("TickwheelDown", {"instance": 1}, "does not answer"))
def node_lost(stage):
    """
    One of two nodes is killed, and is started again at the end.
    """
    url = stage.database(stage.postgres)[1]
    first, second = stage.node(url), stage.node(url)
    stage.scrape(first, second)
    yield
    second.stop(signal.SIGKILL)
    yield
    second.start()


@incident(Expected("TickwheelNobodyFires", {}, "only 0 shards of tickwheel-no-node-fires have an owner"))
def no_node_fires(stage):
    """
    The last node that fires is taken out of service, while processes that only set jobs still run.
    """
    url = stage.database(stage.postgres)[1]
    node = stage.node(url)
    web = stage.start(Node(stage.folder / "web", url, program=Path(__file__).with_name("web_process.py")))
    stage.scrape(node, web)
    yield
    stage.scrape(web)
    node.stop()
    yield
    node.start()
    stage.scrape(node, web)


@incident(Expected("TickwheelQueueWaits", {"queue": "images"}, "pull queue images"), lasts="22m")
def queue_without_worker(stage):
    """
    Jobs for workers are set before any worker is started.
    """
    node = stage.node(stage.sqlite())
    stage.scrape(node)
    yield
    stage.set_at_once("image", 30, target="pull", handler="images")
    yield
    for number in range(30):
        node.ask("DELETE", f"/v1/jobs/image%2F{number}")


@incident(
    Expected("TickwheelLate", {}, "late"),
    Expected("TickwheelOverdue", {}, "has been due for", is_cause=False),
)
def late_burst(stage):
    """
    More jobs are due at the same time than their handler can run in ten minutes.
    """
    node = stage.node(stage.sqlite())
    stage.scrape(node)
    (slow := stage.folder / "slow").touch()
    yield
    workers = min(32, (os.cpu_count() or 1) + 4)
    stage.set_at_once("burst", workers * 4 * seconds("20m") // FACTOR, handler="slow", payload=str(slow))
    yield
    slow.unlink()


@incident(Expected("TickwheelReceiverFull", {"target": "hook"}, "have no room"))
def receiver_full(stage):
    """
    A receiver of webhooks answers that it accepts no more requests.
    """
    receiver = Receiver()
    stage.stack.callback(receiver.close)
    stage.scrape(stage.node(stage.sqlite(), "--target", "hook=webhook:?allow=127.0.0.1"))
    stage.repeat("hook", target="hook", handler=receiver.url)
    yield
    receiver.status = 503
    yield
    receiver.status = 204


@incident(Expected("TickwheelDeadLetters", {}, "jobs of tickwheel-dead-letters died"), lasts="16m")
def dead_letters(stage):
    """
    One job in ten is for an unknown customer and becomes a dead letter.
    """
    stage.scrape(stage.node(stage.sqlite()))
    yield

    def set_some(number):
        stage.set_at_once(f"known{number}", 9, handler="finds")
        stage.set_at_once(f"unknown{number}", 1, handler="finds", payload="unknown", retry={"attempts": 1})

    is_over = stage.meanwhile(set_some)
    yield
    is_over.set()


@incident(Expected("TickwheelClockOff", {"instance": 1}, "off the store's"))
def clock_apart(stage):
    """
    The clock of one of two machines is set forward by four seconds.
    """
    url = stage.database(stage.postgres)[1]
    offset, environment = stage.clock()
    stage.scrape(stage.node(url), stage.node(url, environment=environment))
    yield
    offset.write_bytes(struct.pack("<q", 4 * 10**9))
    yield
    offset.write_bytes(bytes(8))


@incident(Expected("TickwheelTwoStores", {}, "two stores share the job's name"))
def two_stores(stage):
    """
    The services of a second store have the same job name in Prometheus as the services of the first store.
    """
    first = stage.node(stage.sqlite())
    stage.scrape(first)
    second = stage.node(stage.sqlite("others"))
    yield
    stage.scrape(first, second)
    yield
    stage.scrape(first)


@incident(Expected("TickwheelTargetsGone", {}, "knows no instance"))
def targets_gone(stage):
    """
    The service discovery of Prometheus no longer finds the services of one store.
    """
    node = stage.node(stage.sqlite())
    stage.scrape(node)
    yield
    stage.scrape()
    yield
    stage.scrape(node)


# ---- where it happens ------------------------------------------------------------------------------------------------


class Receiver:
    """
    A receiver of webhooks, which answers each request with the current `status`.
    """

    def __init__(self):
        self.status = 204

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler):  # noqa: N805  the name is the library's, and self the receiver
                handler.rfile.read(int(handler.headers["content-length"] or 0))
                handler.send_response(self.status)
                handler.send_header("content-length", "0")
                handler.end_headers()

            def log_message(handler, *_):  # noqa: N805  self is the receiver, as above
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Stage:
    """
    The services of one incident, which have their own job name in Prometheus.
    """

    lease_s = 2

    def __init__(self, name, prometheus, folder, stack, *, make_postgres, postgres):
        self.job = f"tickwheel-{name.replace('_', '-')}"
        self.folder = folder / name
        self.folder.mkdir()
        self.stack, self.make_postgres, self.postgres = stack, make_postgres, postgres
        self.nodes = []
        self._prometheus = prometheus

    def sqlite(self, name="jobs"):
        """
        Return the URL of a store in a SQLite file.
        """
        return f"sqlite:///{self.folder / name}.db"

    def database(self, server):
        """
        Create a database on *server*, and return its name and the URL of a store in it.
        """
        name = self.job.replace("-", "_")
        server.execute(f"CREATE DATABASE {name}")
        return name, f"{server.url(name)}&shards={SHARDS}&lease_s={self.lease_s}"

    def line(self, server):
        """
        Return a proxy to *server*, whose connections a test can cut.
        """
        line = Line(str(server.folder / ".s.PGSQL.5432"))
        self.stack.callback(line.close)
        return line

    def clock(self):
        """
        Return a file with a clock's error in nanoseconds, and environment variables that make a process read the file.
        """
        library, offset = self.folder / "clock.so", self.folder / "offset"
        source = ROOT / "tests" / "prove" / "interposed_clock.c"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        offset.write_bytes(bytes(8))
        return offset, {"LD_PRELOAD": str(library), "INTERPOSED_OFFSET": str(offset)}

    def node(self, store, *arguments, environment=None):
        """
        Start a node on *store*. The first node also sets recurring jobs.
        """
        path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        more = {"PYTHONPATH": path, **(environment or {})}
        arguments = ("--handlers", "incident_handlers", *arguments)
        node = self.start(Node(self.folder / f"node{len(self.nodes)}", store, *arguments, environment=more))
        self.nodes.append(node)
        if len(self.nodes) == 1:
            for key in BUSY:
                self.repeat(key, handler="works")
        return node

    def start(self, node):
        """
        Start *node* and return it.

        The node is stopped at the end of the test.
        """
        self.stack.callback(node.stop, signal.SIGKILL)  # by then nothing is tested any more
        node.start()
        return node

    def repeat(self, key, **job):
        """
        Set a recurring job, at the first node.
        """
        self.nodes[0].ask("POST", "/v1/jobs:batch", {"items": [{"do": "set", "key": key, "every": 1, **job}]})

    def set_at_once(self, prefix, count, **job):
        """
        Set *count* jobs that are due now, at the first node.
        """
        items = [{"do": "set", "key": f"{prefix}/{number}", "delay": 0, **job} for number in range(count)]
        for since in range(0, count, 500):
            self.nodes[0].ask("POST", "/v1/jobs:batch", {"items": items[since : since + 500]})

    def meanwhile(self, call):
        """
        Call *call* with 0, 1, 2 ... every half second, in a thread. Return an event that ends the calls.
        """
        is_over = threading.Event()

        def run():
            number = 0
            while not is_over.wait(0.5):
                call(number)
                number += 1

        thread = threading.Thread(target=run)
        thread.start()
        self.stack.callback(lambda: (is_over.set(), thread.join()))
        return is_over

    def scrape(self, *nodes):
        """
        Let Prometheus scrape exactly *nodes* under the job name of this incident.
        """
        self._prometheus.scrape(self.job, [node.port for node in nodes])

    def instance(self, number):
        """
        Return the label `instance` that Prometheus gives to node *number*.
        """
        return f"127.0.0.1:{self.nodes[number].port}"


# ---- what Prometheus says --------------------------------------------------------------------------------------------


def identity(labels):
    """
    Return a key that identifies an alert by its name and labels.
    """
    return tuple(sorted((name, value) for name, value in labels.items() if name not in {"__name__", "alertstate"}))


class Record:
    """
    The alerts that fire during an incident, and the times of the incident.

    Attributes:
        began: The time of the last evaluation of the rules before the incident.
        ended: The time of the last evaluation of the rules before the end of the incident.
        texts: The annotations of each alert that was seen firing.
    """

    def __init__(self, stage, incident, prometheus):
        self._stage, self._incident, self._prometheus = stage, incident, prometheus
        self.began = self.ended = 0.0
        self.texts = {}
        self.expected = {}
        for each in incident.expected:
            labels = dict(each.labels)
            if "instance" in labels:
                labels["instance"] = stage.instance(labels["instance"])
            self.expected[frozenset({"alertname": each.alert, "job": stage.job, **labels}.items())] = each

    def wait_until_calm(self):
        """
        Wait until Prometheus sees an owner for every shard, and no alert of the services fires.
        """
        job = f'{{job="{self._stage.job}"}}'
        give_up = time.monotonic() + PATIENCE_S
        while self._prometheus.value(f"sum(tickwheel_shards_owned{job}) == max(tickwheel_shards{job})") is None:
            assert time.monotonic() < give_up, f"{self._stage.job}: not all shards have owners"
            time.sleep(self._prometheus.interval_s / 4)  # no signal reports an evaluation
        self.wait(lambda firing: not firing, "not calm before")

    def evaluations(self):
        return self._prometheus.evaluations()

    def means(self, labels):
        """
        Return the expected alert with these *labels*, or None.
        """
        return next((each for key, each in self.expected.items() if key <= labels.items()), None)

    def take(self):
        """
        Return the labels of the firing alerts of this incident's services, and add their annotations to `texts`.
        """
        mine = [each for each in self._prometheus.alerts() if each["labels"].get("job") == self._stage.job]
        firing = [each["labels"] for each in mine if each["state"] == "firing"]
        self.texts |= {identity(each["labels"]): each["annotations"] for each in mine if each["state"] == "firing"}
        return firing

    def wait(self, is_enough, what):
        """
        Wait until `is_enough(labels of the firing alerts)` is true.

        If this takes too long, the error has the text *what*.
        """
        give_up = time.monotonic() + PATIENCE_S
        while not is_enough(found := self.take()):
            assert time.monotonic() < give_up, f"{what}: {found}"
            time.sleep(self._prometheus.interval_s / 4)  # no signal reports an evaluation

    def last(self, duration):
        """
        Wait for as many evaluations of the rules as the original Prometheus makes in *duration*.

        Return the instant of the last evaluation.
        """
        count = round(seconds(duration) / FACTOR / self._prometheus.interval_s)
        since = self._prometheus.evaluations()[-1]
        while sum(at > since for at in self._prometheus.evaluations()) < count:
            self.take()
            time.sleep(self._prometheus.interval_s / 4)  # no signal reports an evaluation
        return self._prometheus.evaluations()[-1]

    def firings(self):
        """
        Return the labels of each alert that fired, and the instants of the evaluations at which it fired.
        """
        found = self._prometheus.samples(f'ALERTS{{alertstate="firing", job="{self._stage.job}"}}')
        return [(labels, {at for at, _ in values}) for labels, values in found]

    def unexpected(self):
        """
        Return a text with the times for each alert that fired unexpectedly.
        """
        lasted = self.ended - self.began
        return [
            f"{labels}: from {min(fired) - self.began:.0f} to {max(fired) - self.began:.0f} s, of {lasted:.0f}"
            for labels, fired in self.firings()
            if self.means(labels) is None
        ]


def run(plot, record, incident):
    """
    Cause the *incident*, wait for its alerts, and end it. Then wait until no alert fires any more.
    """
    causes = [key for key, each in record.expected.items() if each.is_cause]
    record.began = record.evaluations()[-1]
    next(plot, None)
    record.wait(lambda firing: all(any(key <= labels.items() for labels in firing) for key in causes), f"no {causes}")
    record.ended = record.last(incident.lasts)
    next(plot, None)
    record.wait(lambda firing: not firing, "fires on")
    record.last("10m")
    return record


@pytest.fixture(scope="module")
def prometheus():
    """
    Return a running Prometheus without targets.
    """
    if find("prometheus") is None:
        pytest.skip("prometheus, which comes with promtool, is not installed: run make servers")
    with tempfile.TemporaryDirectory(prefix="tickwheel-") as folder:
        server = Prometheus(Path(folder), FACTOR)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def records(request, prometheus, make_postgres, postgres, tmp_path_factory):
    """
    Run the incidents of the selected tests at the same time.

    Return a future for the record of each incident.
    """
    if not sys.platform.startswith("linux") or shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("the clock of one process is only set on Linux, with a C compiler")
    tests = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    folder = tmp_path_factory.mktemp("incidents")
    with ExitStack() as stack, ThreadPoolExecutor(len(INCIDENTS)) as pool:

        def begin(name):
            stage = Stage(name, prometheus, folder, stack, make_postgres=make_postgres, postgres=postgres)
            next(plot := INCIDENTS[name].plot(stage))
            return plot, Record(stage, INCIDENTS[name], prometheus), INCIDENTS[name]

        names = list(dict.fromkeys(["nothing", *(item.callspec.params["name"] for item in tests)]))
        with ThreadPoolExecutor(2) as few:
            begun = dict(zip(names, few.map(begin, names), strict=True))
        for _, record, _ in begun.values():
            record.wait_until_calm()
        yield {name: pool.submit(run, *each) for name, each in begun.items()}


# ---- the tests -------------------------------------------------------------------------------------------------------

all_incidents = pytest.mark.parametrize("name", INCIDENTS)
incidents = pytest.mark.parametrize("name", [name for name, each in INCIDENTS.items() if each.expected])


def test_only_times_are_shortened():
    """
    The tested rules differ from the original rules only in times.
    """
    rules = (ROOT / "deploy" / "alerts.yml").read_text("utf-8")
    shipped = [rule for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
    shorter = [rule for group in shortened(rules, FACTOR)["groups"] for rule in group["rules"]]
    assert shorter.pop()["record"]
    for one, other in zip(shipped, shorter, strict=True):
        assert one | {"expr": "", "for": ""} == other | {"expr": "", "for": ""}
        assert TIMES.sub("", one["expr"]) == TIMES.sub("", other["expr"])
        assert (one["expr"] == other["expr"]) is not ("[" in one["expr"] or "time()" in one["expr"])
        assert ("for" in one) is ("for" in other)


@pytest.mark.slow
@all_incidents
def test_the_alert_fires_and_no_other(records, name):
    """
    The alerts for the cause of the incident fire, and no unexpected alert fires.
    """
    record = records[name].result()
    fired = [labels for labels, _ in record.firings()]
    assert record.unexpected() == [], f"where nothing happens: {records['nothing'].result().unexpected()}"
    causes = [each for each in INCIDENTS[name].expected if each.is_cause]
    assert sum(record.means(labels).is_cause for labels in fired) == len(causes), fired


@pytest.mark.slow
@incidents
def test_it_fires_until_the_end(records, name):
    """
    Once the alert for the cause has fired, it fires at every evaluation until the incident ends.
    """
    record = records[name].result()
    causes = [(labels, fired) for labels, fired in record.firings() if record.means(labels).is_cause]
    assert causes
    for labels, fired in causes:
        between = {at for at in record.evaluations() if min(fired) <= at <= record.ended}
        assert len(between) > 10
        assert between - fired == set(), labels


@pytest.mark.slow
@incidents
def test_it_names_the_cause_and_links_to_the_remedy(records, name):
    """
    The text of each alert names the fault, and links to the section about the alert on the operator's page.
    """
    record = records[name].result()
    assert record.texts
    for key, texts in record.texts.items():
        labels = dict(key)
        assert record.means(labels).says in texts["summary"]
        page, _, section = texts["runbook_url"].removeprefix(DOCS).partition("#")
        assert f"`{labels['alertname']}`" in sections(page)[section]


@pytest.mark.slow
def test_no_service_is_left_to_scrape(records, prometheus, until):
    """
    If Prometheus finds no service at all, an alert still fires.
    """
    for each in records.values():
        each.result()
    prometheus.forget_all()
    found = until(lambda: [each for each in prometheus.alerts() if each["state"] == "firing"])
    assert {each["labels"]["alertname"] for each in found} == {"TickwheelTargetsGone"}


def sections(page):
    """
    Return the text of each section on a *page* of the site, by the anchor of the section.
    """
    text = (ROOT / "docs" / page.replace(".html", ".md")).read_text("utf-8")
    titled = re.split(r"^##+ (.+)$", text, flags=re.MULTILINE)[1:]
    return {title.lower().replace(" ", "-"): body for title, body in zip(titled[::2], titled[1::2], strict=True)}
