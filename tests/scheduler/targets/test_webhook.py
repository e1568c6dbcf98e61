"""
Webhooks that are sent to a real server on the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import math
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from tickwheel.jobs.errors import DeliveryError
from tickwheel.observe.events import JobDied, JobFailed, JobSucceeded
from tickwheel.scheduler import DeadLetter, Firing, InvalidJobError, Job, RetryPolicy, SetRequest, Snooze, State
from tickwheel.targets import webhook
from tickwheel.targets._signing import read_secret, signature
from tickwheel.targets.webhook import WebhookError, WebhookTarget

pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'tickwheel[webhook]'")

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  the specification's example


class Receiver(ThreadingHTTPServer):
    """
    A server that answers by path from `answers`, and records the requests.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.received = []
        self.answers = {}
        self.is_released = threading.Event()

    def answer_to(self, path, _message):
        """
        Return the answer to one request.
        """
        return self.answers.get(path, (204, {}, ""))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    """
    The handler of one request.
    """

    def do_POST(self):
        """
        Record the request, and answer it.
        """
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, dict(self.headers), body))
        status, headers, text = self.server.answer_to(self.path, self.headers["webhook-id"])
        if status == "slow":
            self.server.is_released.wait(60)  # the test releases it after the sender's timeout
            status = 204
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "100" if text in ("stalls", "breaks off") else str(len(text)))
        self.end_headers()
        if text == "stalls":
            self.server.is_released.wait(60)
        if text in ("stalls", "breaks off"):
            return
        with contextlib.suppress(BrokenPipeError):  # the sender has timed out
            self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    """
    Return a listening server.
    """
    yield from listening(Receiver())


def listening(server):
    """
    Yield *server* while it listens, and stop it afterwards.
    """
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.is_released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def firing(url, payload=b'{"a":1}', trace=None):
    """
    Return a firing of a job for *url*.
    """
    return Firing(Job("kä/y 1", 7, 1000, payload, "webhook", url, 1, trace=trace), 2, time.time() * 1000)


def sent(url, *, timeout_s=5.0, **options):
    """
    Send one firing, and return the result.
    """
    target = WebhookTarget(timeout_s=timeout_s, **options)

    async def send():
        try:
            return await target.resolve(url).function(firing(url, trace="00-" + "a" * 32 + "-" + "b" * 16 + "-01"))
        finally:
            await target.close()

    return asyncio.run(send())


LOOPBACK = {"allow": ["127.0.0.0/8", "::1"]}


def test_the_message_of_a_webhook(receiver):
    """
    The payload is sent unchanged and signed.

    The message has ids by which a receiver can recognise repeats.
    """
    assert sent(f"{receiver.url}/hook?x=1", secrets=[SECRET], **LOOPBACK) is None
    ((path, headers, body),) = receiver.received
    assert (path, body) == ("/hook?x=1", b'{"a":1}')
    assert headers["content-type"] == "application/json"
    assert unquote(headers["tickwheel-fire-id"]) == "kä/y 1/7/2"
    assert headers["tickwheel-attempt"] == "2"
    assert headers["traceparent"].startswith("00-aaa")
    expected = signature((read_secret(SECRET),), headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == expected
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


def test_unsigned(receiver):
    """
    Without a secret, a message has an id and no signature.
    """
    sent(receiver.url, **LOOPBACK)
    ((_, headers, _),) = receiver.received
    assert "webhook-id" in headers
    assert "webhook-signature" not in headers


@pytest.mark.parametrize("status", [200, 201, 202, 299])
def test_success(receiver, status):
    """
    Every status 2xx is a success.
    """
    receiver.answers["/"] = (status, {}, "")
    assert sent(f"{receiver.url}/", **LOOPBACK) is None


@pytest.mark.parametrize("status", [300, 400, 404, 500, 501])
def test_failure(receiver, status):
    """
    A status such as 300, 404 or 500 is a failed attempt.

    The error shows the beginning of the answer.
    """
    receiver.answers["/"] = (status, {}, "no " * 1000)
    with pytest.raises(WebhookError, match=f"answered {status} .*: no no") as caught:
        sent(f"{receiver.url}/", **LOOPBACK)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_is_full_or_unreachable(receiver, status):
    """
    If a receiver is full, or its gateway cannot reach it, the job waits and no attempt is used.

    The job shows why it waits.
    """
    receiver.answers["/"] = (status, {}, "no " * 1000)
    answer = sent(f"{receiver.url}/", **LOOPBACK)
    assert isinstance(answer, Snooze)
    assert 1 <= answer.delay <= 1.25
    assert f"answered {status} " in answer.reason


def test_a_job_waits_for_at_most_a_day(receiver):
    """
    A job waits for its receiver for at most a day without using attempts. After that, its attempts count.
    """
    receiver.answers["/"] = (429, {}, "")
    target = WebhookTarget(**LOOPBACK)
    first = sent(f"{receiver.url}/", **LOOPBACK).reason

    async def send(days):
        now = firing(f"{receiver.url}/")
        later = replace(now, job=replace(now.job, error=first), fired_at=now.fired_at + days * 86_400_000)
        try:
            return await target.resolve(f"{receiver.url}/").function(later)
        finally:
            await target.close()

    assert asyncio.run(send(0.9)).reason == first, "the waiting goes on, and has begun when it did"
    with pytest.raises(DeliveryError, match="it waited for a day"):
        asyncio.run(send(1.1))


def test_an_answer_410_makes_a_dead_letter(receiver):
    """
    The answer 410 (gone) makes the job a dead letter.
    """
    receiver.answers["/"] = (410, {}, "unsubscribed")
    answer = sent(f"{receiver.url}/", **LOOPBACK)
    assert isinstance(answer, DeadLetter)
    assert "410" in answer.reason
    assert "unsubscribed" in answer.reason


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("7", 7, 7),
        ("99999999", 86_400, 86_400),
        (format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True), 3_600, 7_200),
    ],
    # the ids omit the time, which differs between the processes that share the tests
    ids=["seconds", "too long", "date"],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after(receiver, status, value, least, most):
    """
    If a receiver says when to retry, the next attempt is at that time, but at most a day later.
    """
    receiver.answers["/"] = (status, {"retry-after": value}, "")
    answer = sent(f"{receiver.url}/", **LOOPBACK)
    assert isinstance(answer, Snooze)
    assert least - 0.001 <= answer.delay <= most + 2, "in its turn, once the receiver takes some again"


@pytest.mark.parametrize("text", ["stalls", "breaks off"])
def test_a_body_that_does_not_come(receiver, monkeypatch, text):
    """
    The status of an error answer is used even if the body of the answer does not arrive.
    """
    monkeypatch.setattr(webhook, "_BODY_S", 0.1)
    receiver.answers["/gone"] = (410, {}, text)
    receiver.answers["/busy"] = (503, {"retry-after": "7"}, text)
    receiver.answers["/odd"] = (404, {}, text)
    gone, busy = sent(f"{receiver.url}/gone", **LOOPBACK), sent(f"{receiver.url}/busy", **LOOPBACK)
    assert gone == DeadLetter(f"{receiver.url}/gone answered 410 Gone")
    assert busy.reason.endswith(f"{receiver.url}/busy answered 503 Service Unavailable")
    with pytest.raises(WebhookError, match="answered 404 Not Found") as caught:
        sent(f"{receiver.url}/odd", **LOOPBACK)
    assert caught.value.is_up


def test_an_unreadable_answer(receiver):
    """
    The error for an unreadable answer shows no header of the request, and so no signature.
    """
    receiver.answers["/"] = (200, {"x": "a" * 20_000}, "")
    with pytest.raises(WebhookError, match="sent an answer that cannot be read: Got more than") as caught:
        sent(f"{receiver.url}/", secrets=[SECRET], **LOOPBACK)
    assert "signature" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "soon",
        "0",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
        "Wed, 21 Oct 2026 07:28:00 +99999999999999999999",
    ],
)
def test_unreadable_retry_after(receiver, value):
    """
    If the time in a Retry-After header is invalid or in the past, the header is ignored.
    """
    receiver.answers["/"] = (503, {"retry-after": value}, "")
    answer = sent(f"{receiver.url}/", **LOOPBACK)
    assert 1 <= answer.delay <= 2


def test_redirects_are_not_followed(receiver):
    """
    A redirect is a failed attempt, and is not followed.
    """
    receiver.answers["/"] = (307, {"location": f"{receiver.url}/elsewhere"}, "")
    with pytest.raises(WebhookError, match="307"):
        sent(f"{receiver.url}/", **LOOPBACK)
    assert [path for path, _, _ in receiver.received] == ["/"]


def test_no_answer(receiver):
    """
    If a receiver does not answer in time, no attempt is used.
    """
    receiver.answers["/"] = ("slow", {}, "")
    assert "did not answer within 0.1 s" in sent(f"{receiver.url}/", timeout_s=0.1, **LOOPBACK).reason


@pytest.fixture
def other():
    """
    Return a second receiver.
    """
    yield from listening(Receiver())


def sent_all(urls, **options):
    """
    Send a firing to each of *urls* at the same time, and return the answers and errors.
    """
    target = WebhookTarget(**options, **LOOPBACK)

    async def send():
        try:
            return await asyncio.gather(
                *(target.resolve(url).function(firing(url)) for url in urls), return_exceptions=True
            )
        finally:
            await target.close()

    return asyncio.run(send()), target.figures()


def test_a_hanging_receiver_beside_others(receiver, other, monkeypatch):
    """
    If one receiver hangs, requests to other receivers are sent and answered without delay.

    Requests to different receivers have separate connections.
    """
    monkeypatch.setattr(webhook, "_AT_ONCE", 2)
    receiver.answers["/"] = ("slow", {}, "")
    (*hung, answer), figures = sent_all([f"{receiver.url}/"] * 3 + [f"{other.url}/"], timeout_s=2.0)
    assert all("did not answer within 2 s" in str(each) for each in hung)
    assert answer is None
    reason = f"{receiver.url}/ did not answer within 2 s"
    assert figures == {receiver.url: {"state": "closed", "failures": 3, "open_s": 0.0, "reason": reason}}


def test_a_wait_for_a_connection_takes_no_time(receiver, monkeypatch):
    """
    The timeout of an attempt begins once a connection to its receiver is free, not while the attempt waits for one.
    """
    monkeypatch.setattr(webhook, "_AT_ONCE", 1)
    receiver.answers["/slow"] = ("slow", {}, "")
    (late, answer), figures = sent_all([f"{receiver.url}/slow", f"{receiver.url}/"], timeout_s=3.0)
    assert "did not answer within 3 s" in str(late)
    assert answer is None
    assert figures == {}


def test_jobs_that_wait_when_a_receiver_fails(receiver, monkeypatch):
    """
    If a receiver fails too often, its breaker opens.

    The jobs that wait for this receiver are postponed.
    """
    monkeypatch.setattr(webhook, "_AT_ONCE", 1)
    receiver.answers["/"] = ("slow", {}, "")
    (late, *others), figures = sent_all([f"{receiver.url}/"] * 4, timeout_s=0.5, failures_max=1)
    assert "did not answer" in late.reason
    assert all(isinstance(each, Snooze) for each in others)
    assert figures[receiver.url]["failures"] == 1


def test_a_lack_of_file_descriptors(receiver, monkeypatch):
    """
    If this process cannot open more sockets, the attempt fails, and the breaker stays closed.
    """

    def refuse(_address):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(webhook.Guard, "check", lambda _, address: refuse(address))
    errors, figures = sent_all([f"{receiver.url}/"] * 3, failures_max=1)
    assert all("cannot be reached: Too many open files" in str(each) for each in errors)
    assert figures == {}


def test_no_process_listens(receiver):
    """
    If no process listens on the port, no attempt is used.

    The job shows this as the reason why it waits.
    """
    url = receiver.url
    receiver.shutdown()
    receiver.server_close()
    assert "cannot be reached" in sent(url, **LOOPBACK).reason


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "127.1", "[::ffff:127.0.0.1]"])
def test_the_inside_is_refused(receiver, host):
    """
    However a loopback address is spelled, nothing is sent to it unless it is allowed.

    The job becomes a dead letter.
    """
    answer = sent(f"http://{host}:{receiver.server_address[1]}/")
    assert isinstance(answer, DeadLetter)
    assert "is not a public one" in answer.reason or "not a canonical IPv4 address" in answer.reason
    assert receiver.received == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url",
        "ftp://example.com/",
        "http://",
        "http://exa mple.com/",
        "//example.com",
        "http://[::1",
        "http://x:0/",
        "http://a..b/",
        "http://.example/",
        "http://bücher..de/",
        f"http://{'a' * 64}.com/",
    ],
)
def test_bad_urls(url):
    """
    Anything but an HTTP URL is refused when the job is set.
    """
    with pytest.raises(InvalidJobError, match="a webhook needs a URL"):
        WebhookTarget().check(url)


def test_good_hosts():
    """
    A host may end in a dot, have labels of 63 characters, use another script, or be an address.
    """
    for host in ("example.com.", f"{'a' * 63}.com", "[::1]:80", "[fe80::1%25lo]", "127.0.0.1", "bücher.de"):
        WebhookTarget().check(f"http://{host}/")


def test_a_host_that_is_too_long_when_it_is_encoded():
    """
    If a host name is too long only in its encoded form, the job becomes a dead letter.
    """
    answer = sent(f"http://{'ü' * 62}.example/")
    assert isinstance(answer, DeadLetter)
    assert "cannot be called" in answer.reason


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"failures_max": "5"}, "failures_max is '5': pass an integer"),
        ({"failures_max": 2.5}, "failures_max is 2.5: pass an integer"),
        ({"timeout_s": math.inf}, "timeout_s is inf: pass seconds, more than 0 and at most 86400"),
        ({"open_s": math.inf}, "open_s is inf: pass seconds, more than 0 and at most 86400"),
    ],
)
def test_impossible_options(options, said):
    """
    Options with which no request or breaker could work are refused when the target is made.

    The error names the option.
    """
    with pytest.raises(InvalidJobError, match=said):
        WebhookTarget(**options)


def test_passwords_in_urls():
    """
    A URL with a password is refused.

    The error does not show the password.
    """
    with pytest.raises(InvalidJobError, match="leave the password out") as caught:
        WebhookTarget().check("https://user:hunter2@example.com/")
    assert "hunter2" not in str(caught.value)


def test_through_the_scheduler(receiver, make, url, events):
    """
    Webhook jobs are delivered by a scheduler.

    After a failure, the attempt is repeated. After the answer 410, the job becomes a dead letter.
    """
    scheduler = make(url, targets={"webhook": WebhookTarget(**LOOPBACK)}).start()
    told = events(scheduler)
    receiver.answers["/flaky"] = (500, {}, "")
    receiver.answers["/gone"] = (410, {}, "")
    retry = RetryPolicy(attempts=5, base_ms=1)
    for path in ("fine", "flaky", "gone"):
        scheduler.set(path, delay=0, target="webhook", handler=f"{receiver.url}/{path}", payload=[path], retry=retry)
    told.wait_for(lambda: any(isinstance(each, JobFailed) for each in told.items))
    receiver.answers["/flaky"] = (200, {}, "")
    found = told.wait_for(lambda: sum(isinstance(each, JobSucceeded | JobDied) for each in told.items) == 3)
    ends = {each.key: type(each) for each in found if isinstance(each, JobSucceeded | JobDied)}
    assert ends == {"fine": JobSucceeded, "flaky": JobSucceeded, "gone": JobDied}
    assert scheduler.get("gone").state is State.DEAD
    ids = [headers["webhook-id"] for path, headers, _ in receiver.received if path == "/flaky"]
    assert len(ids) > 1
    assert len(set(ids)) == 1
    assert {json.loads(body)[0] for _, _, body in receiver.received} == {"fine", "flaky", "gone"}


class Limited(Receiver):
    """
    A receiver that accepts a fixed number of requests per second of its clock.

    It refuses further requests as public APIs do.
    """

    limit, status, after = 20, 429, "1"

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.seconds = Counter()
        self.taken = Counter()
        self.refused = Counter()

    def answer_to(self, path, message):
        """
        Count one request, and return its answer.
        """
        with self.lock:
            second = int(time.monotonic())
            self.seconds[second] += 1
            if self.seconds[second] <= self.limit:
                self.taken[message] += 1
                return 204, {}, ""
            self.refused[message] += 1
            return self.status, {"retry-after": self.after} if self.after else {}, ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "after", "addresses"), [(429, "1", 1), (503, "1", 1), (429, "5", 1), (429, None, 1), (429, "1", 300)]
)
def test_a_full_receiver(make, events, status, after, addresses):
    """
    A burst to a rate-limited receiver arrives at the receiver's rate.

    The burst uses no attempts, and few messages are sent again.
    """
    with contextlib.contextmanager(listening)(Limited()) as server:
        server.status, server.after = status, after
        scheduler = make("memory://", targets={"webhook": WebhookTarget(**LOOPBACK)}).start()
        told = events(scheduler)
        scheduler.set_many(
            SetRequest(f"{number}", delay=0.5, target="webhook", handler=f"{server.url}/{number % addresses}")
            for number in range(300)
        )
        told.wait_for(lambda: sum(isinstance(each, JobSucceeded | JobDied) for each in told.items) == 300)
        assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]
        assert all(each.attempt == 1 for each in told.of(JobSucceeded))
        assert len(server.taken) == sum(server.taken.values()) == 300
        assert sum(server.refused.values()) <= 300
        assert len(server.seconds) <= 1.5 * 300 / server.limit + 5
        assert {each["state"] for each in scheduler.stats()["targets"]["webhook"].values()} == {"full"}
