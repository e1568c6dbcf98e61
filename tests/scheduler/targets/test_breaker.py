"""
Circuit breakers, on a manual clock and with a real receiver of webhooks.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tickwheel.observe.events import CircuitClosed, CircuitOpened, JobFailed, JobSnoozed, JobSucceeded
from tickwheel.observe.prometheus import exposition
from tickwheel.scheduler import InvalidJobError, RetryPolicy
from tickwheel.targets._breaker import _BREAKERS_MAX, Breakers
from tickwheel.targets.webhook import WebhookTarget

ROUNDING = 1e-9
LEFT_ALONE = ("open", "half-open")


class Bench:
    """
    Circuit breakers that open after three failures. They stay open for at most ten seconds.
    """

    def __init__(self):
        self.now = 100.0
        self.told = []
        self.breakers = Breakers(3, 10.0, clock=lambda: self.now)
        self.breakers.emit = self.told.append

    def call(self, *, is_up, name="there"):
        """
        Make a call if the breaker allows one.

        Otherwise return the time to wait.
        """
        wait = self.breakers.enter(name)
        if wait is None:
            self.breakers.leave(name, is_up=is_up, reason="no")
            return None
        assert wait.reason == "no"
        return wait.seconds

    def fail(self, count, name="there"):
        """
        Make *count* failing calls.
        """
        for _ in range(count):
            assert self.call(is_up=False, name=name) is None


def test_it_opens_after_failures_in_a_row():
    """
    The third failure in a row opens the breaker.

    A success resets the count.
    """
    bench = Bench()
    bench.fail(2)
    assert bench.call(is_up=True) is None
    bench.fail(2)
    assert bench.told == []
    bench.fail(1)
    (opened,) = bench.told
    assert (opened.place, opened.failures) == ("there", 3)
    assert 1 <= opened.open_s <= 1.25
    assert opened.open_s <= bench.call(is_up=True) + ROUNDING


def test_one_attempt_probes_while_the_others_wait():
    """
    Once the breaker has been open for long enough, one attempt may call the receiver as a probe.

    The other attempts check again soon.
    """
    bench = Bench()
    bench.fail(3)
    bench.now += 2
    assert bench.breakers.figures()["there"]["state"] == "half-open"
    assert bench.breakers.enter("there") is None
    assert 1 <= bench.breakers.enter("there").seconds <= 1.25
    bench.breakers.leave("there", is_up=True)
    assert bench.told[1:] == [CircuitClosed("there")]
    assert bench.breakers.figures() == {}
    bench.fail(2)


def test_a_probe_that_fails_opens_it_again():
    """
    If the probe fails, the breaker opens again. The longer the outage has lasted, the longer the breaker stays open.

    The event for an opened breaker is published only the first time.
    """
    bench = Bench()
    bench.fail(3)
    for passed, least in ((2, 1), (198, 2), (600, 8), (10_000, 10)):
        bench.now += passed
        assert bench.call(is_up=False) is None
        figures = bench.breakers.figures()["there"]
        assert figures["state"] == "open"
        assert least - ROUNDING <= figures["open_s"] <= bench.call(is_up=True) + ROUNDING
        assert bench.call(is_up=True) <= least * 1.25 + 0.1
    assert len(bench.told) == 1


def test_waiting_jobs_are_retried_one_by_one():
    """
    Waiting jobs are not all retried at the same instant, and not faster than a store can process them.
    """
    bench = Bench()
    bench.fail(3)
    waits = sorted(bench.call(is_up=True) for _ in range(5000))
    assert len(set(waits)) == 5000
    assert waits[-1] >= 10


def test_a_full_receiver_is_shown_as_full():
    """
    If the receiver says that it is full, the breaker opens at once, for the time that the receiver requested.

    Its state is then "full".
    """
    bench = Bench()
    assert bench.breakers.enter("there") is None
    bench.breakers.leave("there", is_up=False, reason="no", is_full=True, after_s=5)
    assert 5 <= bench.call(is_up=True) <= 6.25
    assert bench.breakers.figures()["there"]["state"] == "full"


def test_a_probe_without_a_result_lets_another_attempt_probe():
    """
    If the probe is interrupted or never sent, another attempt may probe.
    """
    bench = Bench()
    assert bench.call(is_up=None) is None
    assert bench.breakers.figures() == {}
    bench.fail(3)
    bench.now += 10
    assert bench.call(is_up=None) is None
    assert bench.call(is_up=True) is None
    assert isinstance(bench.told[-1], CircuitClosed)


def test_receivers_are_separate_and_bounded():
    """
    A failing receiver does not delay messages to other receivers.

    The number of receivers with a breaker in memory is bounded.
    """
    bench = Bench()
    bench.fail(3)
    assert bench.call(is_up=True, name="elsewhere") is None
    for number in range(_BREAKERS_MAX):
        bench.fail(1, name=f"other {number}")
    assert len(bench.breakers.figures()) == _BREAKERS_MAX
    assert "there" not in bench.breakers.figures()


class Broken(BaseHTTPRequestHandler):
    """
    A request handler that answers with the HTTP status in the attribute `status` of its server.
    """

    def do_POST(self):
        """
        Count the request, and answer it.
        """
        self.rfile.read(int(self.headers["content-length"]))
        self.server.count += 1
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """
    Return a listening server whose answers are errors.
    """
    made = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    made.daemon_threads = True
    made.status, made.count = 500, 0
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_webhooks_are_postponed_without_attempts(server, make, events):
    """
    While the breaker is open, jobs are snoozed and use no attempt.

    All jobs are delivered once the receiver works again.
    """
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'tickwheel[webhook]'")
    target = WebhookTarget(allow=["127.0.0.1"], failures_max=3, open_s=0.2)
    scheduler = make("memory://", targets={"webhook": target}).start()
    told = events(scheduler)
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    retry = RetryPolicy(attempts=6, kind="list", waits_ms=(1,), jitter=0)
    for number in range(20):
        scheduler.set(str(number), delay=0, target="webhook", handler=url, retry=retry)
    opened = told.of(CircuitOpened)[0]
    assert (opened.place, opened.failures) == (url.rstrip("/"), 3)
    told.of(JobSnoozed)
    stats = scheduler.stats()
    assert stats["targets"]["webhook"][opened.place]["failures"] >= 3
    metrics = exposition(stats)[1].decode()
    assert 'tickwheel_circuits{state="failing",target="webhook"} 0.0' in metrics
    assert sum(f'tickwheel_circuits{{state="{each}",target="webhook"}} 1.0' in metrics for each in LEFT_ALONE) == 1
    assert not [line for line in metrics.splitlines() if "circuits" in line and url.rstrip("/") in line]
    server.status = 204
    told.of(CircuitClosed)
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 20)
    attempts = [each.attempt for each in told.items if isinstance(each, JobFailed)]
    assert max(attempts) < 6
    assert scheduler.stats()["targets"]["webhook"] == {}


def test_refusals_do_not_open_the_breaker(server, make, events):
    """
    A receiver that answers 404 works, so the breaker stays closed.

    Only errors of a broken or unreachable receiver open it.
    """
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'tickwheel[webhook]'")
    server.status = 404
    target = WebhookTarget(allow=["127.0.0.1"], failures_max=2)
    scheduler = make("memory://", targets={"webhook": target}).start()
    told = events(scheduler)
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    retry = RetryPolicy(attempts=9, kind="list", waits_ms=(1,), jitter=0)
    scheduler.set("one", delay=0, target="webhook", handler=url, retry=retry)
    told.wait_for(lambda: sum(isinstance(each, JobFailed) for each in told.items) == 8)
    assert not [each for each in told.items if isinstance(each, CircuitOpened | JobSnoozed)]


@pytest.mark.parametrize("options", [{"failures_max": 0}, {"open_s": -1}, {"timeout_s": 0}])
def test_bad_options(options):
    """
    A breaker's limit must be positive.
    """
    with pytest.raises(InvalidJobError, match=r"pass (an integer in 1|seconds, more than 0)"):
        WebhookTarget(**options)
