"""
The Redis target on a real server: the target suite, and the features of Redis.
"""

from __future__ import annotations

import itertools
import json

import pytest
from outages import LongOutage

from tickwheel.observe.events import JobFailed, JobSucceeded
from tickwheel.scheduler import InvalidJobError
from tickwheel.targets.redis_stream import RedisStreamTarget, _mark
from tickwheel.testing.target_suite import Received, TargetSuite
from tickwheel.testing.wire import Wire

NUMBERS = itertools.count()
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL


@pytest.fixture
def client(redis_server):
    """
    Return a client connected directly to the server.
    """
    import redis  # noqa: PLC0415  only where it is installed

    with redis.Redis.from_url(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/0", decode_responses=True) as made:
        yield made


@pytest.fixture
def receiver(redis_server, cut, client):
    """
    Return a receiver that is a stream of the server behind a proxy.
    """

    class Receiver(cut):
        """
        A receiver that is one stream of the server.
        """

        handler = f"stream-{next(NUMBERS)}"

        def make_target(self, **options):
            """
            Return a target that uses the proxy.
            """
            return RedisStreamTarget(f"redis://:{SECRET}@127.0.0.1:{self.wire.port}/0", **options)

        def fill(self):
            """
            Make the server run out of memory.
            """
            client.config_set("maxmemory", 1)

        def make_room(self):
            """
            Remove the server's memory limit.
            """
            client.config_set("maxmemory", 0)

        def received(self):
            """
            Return the entries of the stream.
            """
            return [
                Received(entry["message-id"], entry["tickwheel-fire-id"], json.loads(entry["payload"])["value"])
                for _, entry in client.xrange(self.handler)
            ]

    made = Receiver(Wire(redis_server.port))
    yield made
    made.make_room()
    made.wire.close()


class TestRedisStream(LongOutage, TargetSuite):
    """
    The suite of targets, on a Redis stream.
    """

    library, extra = "redis", "redis"
    bad_handlers = ("", "a\nb")
    knows_repeats = True

    @pytest.fixture(autouse=True)
    def _receiver(self, receiver):
        self.make_receiver = lambda: receiver


def test_streams_are_trimmed(receiver, client, make, events):
    """
    If a stream has a limit, it is trimmed to about that length.
    """
    scheduler = make("memory://", targets={"redis": receiver.make_target(length_max=10)}).start()
    told = events(scheduler)
    for number in range(500):
        scheduler.set(str(number), delay=0, target="redis", handler=receiver.handler, payload={"value": number})
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 500)
    assert 10 <= client.xlen(receiver.handler) < 300


def test_a_key_of_another_kind(receiver, client, make, events):
    """
    If a key of another type has the stream's name, the attempt fails with the error that Redis returns.
    """
    client.set(receiver.handler, "text")
    scheduler = make("memory://", targets={"redis": receiver.make_target()}).start()
    told = events(scheduler)
    scheduler.set("one", delay=0, target="redis", handler=receiver.handler)
    assert "WRONGTYPE" in told.of(JobFailed)[0].error


def test_marks_are_in_the_hash_slot_of_their_stream():
    """
    In a cluster, the marks that detect repeated messages are in the same hash slot as the stream of the messages.
    """
    assert _mark("orders", "tw_1") == "{orders}:tw_1"
    assert _mark("a{b}c", "tw_1") == "a{b}c:tw_1"
    assert _mark("a{}c", "tw_1") == "{a{}c}:tw_1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://localhost"}, "its scheme is one of redis, rediss, unix"),
        ({"url": f"http://:{SECRET}@localhost"}, "its scheme is one of"),
        ({"url": "redis://[::1"}, "pass a URL such as"),
        ({"length_max": 0}, "length_max is 0: pass an integer in 1.."),
        ({"length_max": 2.5}, "length_max is 2.5: pass an integer in 1.."),
        ({"once_s": -1}, "once_s is -1"),
        ({"timeout_s": float("nan")}, "timeout_s is nan"),
    ],
)
def test_bad_options(options, message):
    """
    Options that cannot work are refused when the target is made.

    The errors show no password.
    """
    with pytest.raises(InvalidJobError, match=message) as caught:
        RedisStreamTarget(**options)
    assert "hunter2" not in str(caught.value)
