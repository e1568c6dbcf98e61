"""
The NATS target on a real server, with JetStream and without: the target suite, and the features of NATS.
"""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from outages import LongOutage

from tickwheel.observe.events import JobDied, JobFailed, JobSnoozed, JobSucceeded
from tickwheel.scheduler import InvalidJobError, RetryPolicy, SetRequest
from tickwheel.targets.nats import NatsTarget
from tickwheel.testing.target_suite import Received, TargetSuite
from tickwheel.testing.wire import Wire

NUMBERS = itertools.count()
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL
PLAIN = "hunter2/x"


@pytest.fixture
def client(nats_server, loop):
    """
    Return a client connected directly to the server.
    """
    import nats  # noqa: PLC0415  only where it is installed

    made = loop.run(nats.connect(f"nats://127.0.0.1:{nats_server.port}", user="tick", password=PLAIN))
    yield made
    loop.run(made.close())


@pytest.fixture(params=[True, False], ids=["jetstream", "core"])
def receiver(request, nats_server, cut, client, loop):
    """
    Return a receiver that is a subject of the server with a subscriber. Its target reaches the subject through a proxy.
    """
    number = next(NUMBERS)

    class Receiver(cut):
        """
        A receiver that is one subject of the server.
        """

        handler = f"orders{number}.unpaid"

        def __init__(self, wire):
            super().__init__(wire)
            self.messages = []

        def make_target(self):
            """
            Return a target that uses the proxy.
            """
            url = f"nats://tick:{SECRET}@127.0.0.1:{self.wire.port}"
            return NatsTarget(url, jetstream=request.param, timeout_s=2)

        def fill(self):
            """
            Limit the stream to the number of messages that it already has.
            """
            loop.run(limit(len(self.messages)))

        def make_room(self):
            """
            Remove the limit of the stream.
            """
            loop.run(limit(-1))

        def received(self):
            return [
                Received(each.headers["Nats-Msg-Id"], each.headers["tickwheel-fire-id"], json.loads(each.data)["value"])
                for each in list(self.messages)
            ]

    made = Receiver(Wire(nats_server.port))

    async def limit(max_msgs):
        stream = (await client.jetstream().stream_info(f"stream{number}")).config
        await client.jetstream().update_stream(stream, max_msgs=max_msgs)

    async def listen():
        async def note(message):
            made.messages.append(message)

        if request.param:
            jetstream = client.jetstream()
            await jetstream.add_stream(name=f"stream{number}", subjects=[f"orders{number}.>"], discard="new")
            await jetstream.subscribe(Receiver.handler, cb=note)
        else:
            await client.subscribe(Receiver.handler, cb=note)
            await client.flush()

    loop.run(listen())
    yield made
    made.wire.close()


class TestNats(LongOutage, TargetSuite):
    """
    The suite of targets, on NATS.
    """

    library, extra = "nats", "nats"
    bad_handlers = ("", "a b", "a..b", "orders.*", "orders.>", ".a", "a\n")
    takes_largest = False

    @pytest.fixture(autouse=True)
    def _receiver(self, receiver, request):
        self.make_receiver = lambda: receiver
        self.knows_repeats = self.can_be_full = request.node.callspec.params["receiver"]


def test_no_stream(nats_server, make, events):
    """
    With JetStream, a message to a subject without a stream is a failed attempt.

    The error names the remedy.
    """
    target = NatsTarget(f"nats://tick:{SECRET}@127.0.0.1:{nats_server.port}")
    scheduler = make("memory://", targets={"nats": target}).start()
    told = events(scheduler)
    scheduler.set("one", delay=0, target="nats", handler="nobody.listens")
    assert "no stream takes 'nobody.listens': add one" in told.of(JobFailed)[0].error


def test_too_large_for_the_stream(nats_server, client, loop, make, events):
    """
    A message that is too large for its stream becomes a dead letter at once.

    Other messages that are sent at the same time arrive.
    """
    loop.run(client.jetstream().add_stream(name="small", subjects=["small.>"], max_msg_size=2000))
    target = NatsTarget(f"nats://tick:{SECRET}@127.0.0.1:{nats_server.port}", timeout_s=2)
    scheduler = make("memory://", targets={"nats": target}).start()
    told = events(scheduler)
    payloads = {f"small/{number}": number for number in range(200)}
    payloads["large"] = "x" * 5000
    payloads.update({f"later/{number}": number for number in range(200)})
    scheduler.set_many(
        SetRequest(key, delay=0.2, target="nats", handler="small.a", payload=payload)
        for key, payload in payloads.items()
    )
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded | JobDied) for each in told.items) == len(payloads))
    assert not [each for each in told.items if isinstance(each, JobFailed) and each.key != "large"]
    (died,) = told.of(JobDied)
    assert (died.key, died.attempt) == ("large", 1)
    assert "too large for the stream of 'small.a'" in died.error


def test_a_message_without_an_answer(nats_server, client, loop, make, events):
    """
    If one message is never answered, other messages do not fail, and the connection stays open.

    The message is not sent again on that connection.
    """
    from nats.js.api import StreamConfig  # noqa: PLC0415  only where it is installed

    loop.run(client.jetstream().add_stream(StreamConfig(name="mute", subjects=["mute.>"], no_ack=True)))
    loop.run(client.jetstream().add_stream(StreamConfig(name="good", subjects=["good.>"])))
    wire = Wire(nats_server.port)
    target = NatsTarget(f"nats://tick:{SECRET}@127.0.0.1:{wire.port}", timeout_s=0.5)
    scheduler = make("memory://", targets={"nats": target}).start()
    told = events(scheduler)
    for number in range(3):
        scheduler.set(f"mute/{number}", delay=0, target="nats", handler="mute.a", payload=number)
    for _ in range(3):
        told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSnoozed)]) >= 3)
        told.items[:] = []
        for number in range(50):
            scheduler.set(f"good/{number}", delay=0, target="nats", handler="good.a", payload=number)
        told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSucceeded)]) == 50)
        assert not [each for each in told.items if isinstance(each, JobFailed)]
        assert wire.connections == 1
    assert "nothing came within 0.5 s, and the answer is still waited for" in scheduler.get("mute/0").error
    assert loop.run(client.jetstream().stream_info("mute")).state.messages == 3
    assert scheduler.stats()["targets"]["nats"] == {}
    wire.close()


def test_a_full_stream(nats_server, client, loop, make, events):
    """
    If a stream is full, the jobs for its subjects wait, and arrive once there is room.

    Jobs for other subjects do not wait.
    """
    from nats.js.api import StreamConfig  # noqa: PLC0415  only where it is installed

    full = StreamConfig(name="full", subjects=["full.>"], max_msgs=2, discard="new")
    loop.run(client.jetstream().add_stream(full))
    loop.run(client.jetstream().add_stream(name="roomy", subjects=["roomy.>"]))
    target = NatsTarget(f"nats://tick:{SECRET}@127.0.0.1:{nats_server.port}")
    scheduler = make("memory://", targets={"nats": target}).start()
    told = events(scheduler)
    for number in range(6):
        retry = RetryPolicy(attempts=1)
        scheduler.set(f"full/{number}", delay=0, target="nats", handler="full.a", payload=number, retry=retry)
    assert "the stream of 'full.a' is full: " in told.of(JobSnoozed)[0].reason
    told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSucceeded)]) == 2)
    (state,) = {each["state"] for each in scheduler.stats()["targets"]["nats"].values()}
    assert state in ("full", "half-open")
    scheduler.set("roomy", delay=0, target="nats", handler="roomy.a")
    told.of(JobSucceeded, "roomy")
    loop.run(client.jetstream().update_stream(StreamConfig(name="full", subjects=["full.>"], max_msgs=100)))
    told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSucceeded)]) == 7)
    assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]


@pytest.mark.parametrize("is_jetstream", [True, False])
def test_refused_subject(nats_server, make, events, is_jetstream):
    """
    If the user may not publish on a subject, the attempt fails with that reason.

    This also holds for a subject with capital letters, quotes and a backslash.
    """
    url = f"nats://tick:{SECRET}@127.0.0.1:{nats_server.port}"
    scheduler = make("memory://", targets={"nats": NatsTarget(url, jetstream=is_jetstream)}).start()
    told = events(scheduler)
    for name in ("plain", 'Quo"ted\\ä'):
        scheduler.set(name, delay=0, target="nats", handler=f"denied.{name}")
        assert "permissions violation for publish" in told.of(JobFailed, name)[0].error


def test_the_server_has_the_message_before_the_attempt_ends(nats_server, make, events, loop):
    """
    Without a stream, the attempt ends only when the server has certainly received the message.
    """
    sent = bytearray()

    async def pass_on(source, sink, note):
        while data := await source.read(1 << 16):
            note += data
            sink.write(data)
        sink.close()

    async def relay(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
        await asyncio.gather(pass_on(reader, far_writer, sent), pass_on(far_reader, writer, bytearray()))

    async def listen():
        return await asyncio.start_server(relay, "127.0.0.1", 0)

    server = loop.run(listen())
    port = server.sockets[0].getsockname()[1]
    target = NatsTarget(f"nats://tick:{SECRET}@127.0.0.1:{port}", jetstream=False)
    scheduler = make("memory://", targets={"nats": target}).start()
    told = events(scheduler)
    scheduler.set("one", delay=0, target="nats", handler="orders")
    told.of(JobSucceeded)
    assert sent.rindex(b"PING") > sent.rindex(b"HPUB")
    scheduler.stop()

    async def close():
        server.close()

    loop.run(close())


def test_wrong_password(nats_server, make, events):
    """
    A refused login is a failed attempt, whose error shows no password.
    """
    target = NatsTarget(f"nats://tick:wrong-word@127.0.0.1:{nats_server.port}")
    scheduler = make("memory://", targets={"nats": target}).start()
    told = events(scheduler)
    scheduler.set("one", delay=0, target="nats", handler="orders")
    error = told.of(JobFailed)[0].error
    assert "uthorization" in error
    assert "wrong-word" not in error + repr(target)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"url": "amqp://localhost"}, "its scheme is one of nats, tls"), ({"timeout_s": -1}, "timeout_s is -1")],
)
def test_bad_options(options, message):
    """
    Options that cannot work are refused when the target is made.
    """
    with pytest.raises(InvalidJobError, match=message):
        NatsTarget(**options)
