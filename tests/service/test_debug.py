"""
Debugging over HTTP: the stacks, the timer wheel and a profile of the process that fires the jobs.
"""

from __future__ import annotations

import threading
import time

import pytest

WRITE, READ = "w" * 40, "r" * 40
TOKENS = {"TICKWHEEL_WRITE_TOKEN": WRITE, "TICKWHEEL_READ_TOKEN": READ}
STOP_BOUND_S = 15


@pytest.mark.parametrize("path", ["/debug/stacks", "/debug/wheel", "/debug/profile?seconds=0.05"])
def test_a_write_token_is_needed(start, path):
    """
    A request without a token or with a read token is refused.

    With a write token it is accepted.
    """
    server = start(environment=TOKENS)
    statuses = {
        token: server.ask("GET", path, headers={"authorization": f"Bearer {token}"} if token else None).status
        for token in ("", READ, WRITE)
    }
    assert statuses == {"": 401, READ: 403, WRITE: 200}


def test_stacks(server):
    """
    Every thread and every task of the event loop is listed with its name and stack.
    """
    text = server.ask("GET", "/debug/stacks").body.decode()
    assert "thread MainThread\n" in text
    assert "thread tickwheel-writer (daemon)\n" in text
    assert "in stacks" in text
    assert "Stack for <Task" in text


def test_the_wheel(server):
    """
    The counts and levels of the wheel of jobs due soon are shown as text for the operator, and as JSON for the page.
    """
    server.job("PUT", "soon", {"delay": 5, "handler": "works"})
    raw = server.ask("GET", "/debug/wheel").json["counts"]
    assert raw["sets"] >= 1
    assert len(raw["levels"]) == 9
    wheel = server.ask("GET", "/v1/wheel").json
    assert [level["level"] for level in wheel["levels"]] == list(range(9))
    assert all(0 <= level["hand"] < 64 and 0 <= level["into_ns"] < level["slot_ns"] for level in wheel["levels"])
    assert wheel["slot_max"] == max(
        (max(each["counts"].values()) for each in wheel["levels"] if each["counts"]), default=0
    )
    server.job("DELETE", "soon")


def test_a_profile(server):
    """
    A profile contains the sampled stacks of all threads, with the number of samples of each stack.
    """
    answer = server.ask("GET", "/debug/profile?seconds=0.3")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.body.decode().splitlines()
    assert all(line.rpartition(" ")[2].isdigit() and ";" in line for line in lines)
    assert any(line.startswith("tickwheel-writer;") for line in lines)


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "nan", "inf", "1e400", "long"])
def test_a_profile_is_bounded(server, seconds):
    """
    The duration of a profile must be positive and at most a minute.
    """
    answer = server.ask("GET", f"/debug/profile?seconds={seconds}")
    assert answer.status == 422
    assert answer.json["remedy"]


def test_one_profile_at_a_time(start):
    """
    While a profile is being taken, another profile is refused, and a stop of the service does not wait.
    """
    server = start()

    def take_a_long_one() -> None:
        while server.ask("GET", "/debug/profile?seconds=60").status == 429:
            pass  # the short profile ended before the other request arrived

    first = threading.Thread(target=take_a_long_one, daemon=True)
    first.start()
    deadline = time.monotonic() + STOP_BOUND_S
    while (second := server.ask("GET", "/debug/profile?seconds=0.01")).status == 200:
        assert time.monotonic() < deadline
    assert second.status == 429
    assert second.headers["retry-after"]
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < STOP_BOUND_S
    first.join(STOP_BOUND_S)


def test_a_traceparent_is_kept(server):
    """
    The traceparent of a request is stored with the jobs that the request sets, even in a batch.

    An unreadable traceparent is ignored.
    """
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    job = {"delay": 3600, "target": "log"}
    assert server.job("PUT", "traced", job, {"traceparent": trace}).json["job"]["trace"] == trace
    own = f"00-{'c' * 32}-{'d' * 16}-00"
    assert server.job("PUT", "own", job | {"trace": own}, {"traceparent": trace}).json["job"]["trace"] == own
    for bad in ("", "nonsense", f"00-{'0' * 32}-{'b' * 16}-01", f"ff-{'a' * 32}-{'b' * 16}-01"):
        assert server.job("PUT", "bad", job, {"traceparent": bad}).json["job"]["trace"] is None
    items = [{"do": "set", "key": "one", **job}, {"do": "set", "key": "two", **job}]
    server.ask("POST", "/v1/jobs:batch", {"items": items}, {"traceparent": trace})
    assert [server.job("GET", key).json["trace"] for key in ("one", "two")] == [trace, trace]
    for key in ("traced", "own", "bad", "one", "two"):
        server.job("DELETE", key)
