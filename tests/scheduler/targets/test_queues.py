"""
The targets for Celery, RQ, Dramatiq and taskiq, with the real libraries on a real Redis.

The target suite, and further tests.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import socket

import pytest
from outages import LongOutage

from tickwheel.jobs.errors import DeliveryError
from tickwheel.observe.events import JobSucceeded
from tickwheel.scheduler import Firing, Job, Snooze
from tickwheel.targets import DeadLetter, make_target
from tickwheel.targets import celery as celery_module
from tickwheel.targets._broker_errors import judge_broker
from tickwheel.targets._destination import Destination
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets.celery import CeleryTarget
from tickwheel.targets.dramatiq import DramatiqTarget
from tickwheel.targets.rq import RqTarget
from tickwheel.targets.taskiq import TaskiqTarget
from tickwheel.testing.target_suite import Received, TargetSuite
from tickwheel.testing.wire import Wire

NUMBERS = itertools.count()
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL


@pytest.fixture
def client(redis_server):
    """
    Return a client connected directly to an empty database of the server.
    """
    import redis  # noqa: PLC0415  only where it is installed

    with redis.Redis.from_url(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/1") as made:
        made.flushdb()
        yield made


@pytest.fixture
def queue_receiver(redis_server, cut, client):
    """
    Return the class of a receiver that is a queue behind a proxy.

    The fixture closes the objects of this class at the end.
    """
    wire = Wire(redis_server.port)

    class QueuePlace(cut):
        """
        A receiver that is the queue "jobs" in the test's database.
        """

        handler = "tasks.note"

        def __init__(self):
            super().__init__(wire)
            self.url = f"redis://:{SECRET}@127.0.0.1:{wire.port}/1"
            self.client = client
            self.made = []

        def fill(self):
            """
            Make the server run out of memory.
            """
            self.client.config_set("maxmemory", 1)

        def make_room(self):
            """
            Remove the server's memory limit.
            """
            self.client.config_set("maxmemory", 0)

        def payload(self, value):
            """
            Return a payload that calls the task with one argument.
            """
            return {"args": [value]}

    yield QueuePlace
    client.config_set("maxmemory", 0)
    wire.close()


@pytest.mark.parametrize("kind", ["celery+redis", "celery+amqp", "rq+redis", "dramatiq+redis"])
def test_broker_is_frozen(kind):
    """
    If a broker accepts connections but never answers, no attempt is used, and nothing is blocked, not even a close.
    """
    pytest.importorskip(kind.partition("+")[0], reason=f"what {kind} needs is not installed")

    async def send(target):
        firing = Firing(Job("one", 1, 0, handler="tasks.note"), 1, 0.0)
        answers = [await target.resolve("tasks.note").function(firing) for _ in range(2)]
        await target.close()
        return answers

    with socket.create_server(("127.0.0.1", 0)) as frozen:
        answers = asyncio.run(send(make_target(f"{kind}://127.0.0.1:{frozen.getsockname()[1]}/0?timeout_s=0.5")))
    assert all(isinstance(each, Snooze) and "waits since" in each.reason for each in answers)


@pytest.mark.parametrize("kind", ["celery+redis", "celery+amqp", "rq+redis", "dramatiq+redis", "taskiq"])
def test_many_tasks_at_a_broken_broker(kind):
    """
    If the broker cannot be reached, tasks that wait for a thread or a connection fail without trying to connect.
    """
    pytest.importorskip(kind.partition("+")[0], reason=f"what {kind} needs is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.closing(Wire(server.getsockname()[1])) as wire:
        wire.reset_all()
        if kind == "taskiq":
            broker = pytest.importorskip("taskiq_redis", reason="taskiq-redis is not installed").ListQueueBroker
            target = TaskiqTarget(broker(f"redis://127.0.0.1:{wire.port}/0"))
        else:
            target = make_target(f"{kind}://127.0.0.1:{wire.port}/0")

        async def send():
            send_one = target.resolve("tasks.note").function
            firings = [Firing(Job(f"{number}", 1, 0, handler="tasks.note"), 1, 0.0) for number in range(300)]
            answers = await asyncio.gather(*(send_one(each) for each in firings))
            await target.close()
            return answers

        assert all(isinstance(each, Snooze) for each in asyncio.run(send()))
        assert wire.resets <= 150


def test_verdicts_on_a_redis():
    """
    Only the error for a lack of memory, in its old or new form, means that a Redis is full.
    """
    errors = pytest.importorskip("redis.exceptions", reason="redis is not installed: pip install 'tickwheel[redis]'")
    destination = Destination.masking("the Redis of RQ", "hunter2")
    oom = "OOM command not allowed when used memory > 'maxmemory'."
    for error, is_full, is_up in (
        (errors.OutOfMemoryError(oom), True, None),
        (errors.ResponseError(f"Error running script (call to f_1): @user_script:1: -{oom}"), True, None),
        (errors.ResponseError("MISCONF Redis is configured to save RDB snapshots"), False, False),
        (errors.MaxConnectionsError("Too many connections"), False, False),
        (errors.ReadOnlyError("You can't write against a read only replica."), False, False),
    ):
        verdict = judge_broker(error, destination)
        assert isinstance(verdict, NotTakenError)
        assert (verdict.is_full, verdict.is_up) == (is_full, is_up)
    assert isinstance(judge_broker(errors.ResponseError("WRONGTYPE"), destination), DeliveryError)


def test_verdicts_on_wrong_calls():
    """
    If a library refuses a task's call, the job becomes a dead letter.

    The broker is not treated as failing, even if the library kombu wraps the error.
    """
    kombu = pytest.importorskip("kombu.exceptions", reason="kombu is not installed: pip install 'tickwheel[celery]'")
    destination = Destination.masking("the broker of Celery", "hunter2")

    def wrapped(cause):
        error = kombu.OperationalError(str(cause))
        error.__cause__ = cause
        return judge_broker(error, destination)

    for wrong in (KeyError("bogus"), OverflowError("too large"), TypeError("no")):
        assert isinstance(wrapped(wrong), DeadLetter)
        assert isinstance(judge_broker(wrong, destination), DeadLetter)
    assert isinstance(judge_broker(kombu.SerializerNotInstalled("no encoder"), destination), DeadLetter)
    for away in (kombu.OperationalError("gone"), ConnectionResetError("gone")):
        assert wrapped(away).is_up is False
        assert judge_broker(away, destination).is_up is False
    unknown = "No decoder installed for msgpack. Please install the msgpack-python library"
    for lacks in (ModuleNotFoundError("No module named 'x'", name="x"), kombu.SerializerNotInstalled(unknown)):
        verdict = judge_broker(lacks, destination)
        assert isinstance(verdict, NotTakenError)
        assert (verdict.is_full, verdict.is_up) == (False, None)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"compression": "bogus"}, "dies"),
        ({"serializer": "bogus"}, "dies"),
        ({"compression": "missing"}, "waits"),
        ({"compression": "gzip"}, "is sent"),
    ],
)
def test_unknown_and_missing_encodings(client, redis_server, options, verdict, monkeypatch):
    """
    A task with an unknown encoding becomes a dead letter.

    A task whose encoding needs a library that is not installed waits. Other tasks run.
    """
    pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    monkeypatch.setattr(celery_module, "_LIBRARIES", frozenset({"missing"}))
    target = make_target(f"celery+redis://:{SECRET}@127.0.0.1:{redis_server.port}/1?queue=jobs")

    async def send():
        send_one = target.resolve("tasks.note").function
        answers = []
        for number, payload in enumerate(({"args": [1], "options": options}, {"args": [2]})):
            job = Job(f"{number}", 1, 0, json.dumps(payload).encode(), handler="tasks.note")
            answers.append(await send_one(Firing(job, 1, 0.0)))
        figures = target.figures()
        await target.close()
        return (*answers, figures)

    first, second, figures = asyncio.run(send())
    kinds = {"dies": DeadLetter, "waits": Snooze, "is sent": type(None)}
    assert isinstance(first, kinds[verdict]), first
    assert second is None
    assert figures == {}
    assert client.llen("jobs") == (2 if verdict == "is sent" else 1)


@pytest.mark.parametrize("kind", ["celery+redis", "celery+amqp", "rq+redis", "dramatiq+redis"])
def test_one_try_makes_one_connection(kind):
    """
    The library tries to connect once per attempt and does not retry. The circuit breaker tries again after a second.
    """
    pytest.importorskip(kind.partition("+")[0], reason=f"what {kind} needs is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.closing(Wire(server.getsockname()[1])) as wire:
        wire.reset_all()

        async def send(target):
            firing = Firing(Job("one", 1, 0, handler="tasks.note"), 1, 0.0)
            answer = await target.resolve("tasks.note").function(firing)
            await target.close()
            return answer

        answer = asyncio.run(send(make_target(f"{kind}://127.0.0.1:{wire.port}/0")))
        assert isinstance(answer, Snooze)
        assert wire.resets == 1


class TestCelery(LongOutage, TargetSuite):
    """
    Celery, with kombu's Redis transport.
    """

    library, extra = "celery", "celery"
    connections_at_once = 32  # one connection for each thread
    bad_handlers = ("", "a b", "a\n")

    @pytest.fixture(autouse=True)
    def _receiver(self, queue_receiver):
        celery = pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")

        class Receiver(queue_receiver):
            def make_target(self):
                app = celery.Celery("suite", broker=self.url)
                app.conf.task_default_queue = "jobs"
                self.made.append(app)
                return CeleryTarget(app)

            def received(self):
                return [self._read(json.loads(entry)) for entry in reversed(self.client.lrange("jobs", 0, -1))]

            def _read(self, entry):
                (value,), _, _ = json.loads(base64.b64decode(entry["body"]))
                return Received(entry["headers"]["id"], entry["headers"]["tickwheel-fire-id"], value)

        self.make_receiver = Receiver


class TestRq(LongOutage, TargetSuite):
    """
    RQ.
    """

    library, extra = "rq", "rq"
    connections_at_once = 32
    bad_handlers = ("", "a b", "note", "tasks.no-te", "tasks.")
    knows_repeats = True

    @pytest.fixture(autouse=True)
    def _receiver(self, queue_receiver):
        rq = pytest.importorskip("rq", reason="rq is not installed: pip install 'tickwheel[rq]'")
        import redis  # noqa: PLC0415 only where it is installed

        made = []

        class Receiver(queue_receiver):
            def make_target(self):
                connection = redis.Redis.from_url(self.url, retry=None, retry_on_error=[])
                made.append(connection)
                return RqTarget(connection, queue="jobs")

            def lose_confirms(self):
                self.wire.swallow(after=1)  # RQ first adds the name of the queue

            def received(self):
                jobs = rq.Queue("jobs", connection=self.client).get_jobs()
                return [Received(each.id, each.meta["tickwheel-fire-id"], each.args[0]) for each in jobs]

        self.make_receiver = Receiver
        yield
        for connection in made:
            connection.close()


def test_a_fixed_rq_job_id(client, redis_server, make, events):
    """
    If a payload fixes the id of the RQ job, each run of the tickwheel job is enqueued under that id.

    A repeated message of the same run is not enqueued.
    """
    rq = pytest.importorskip("rq", reason="rq is not installed: pip install 'tickwheel[rq]'")
    import redis  # noqa: PLC0415 only where it is installed

    with redis.Redis.from_url(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/1") as connection:
        target = RqTarget(connection, queue="jobs")
        scheduler = make("memory://", targets={"rq": target}).start()
        told = events(scheduler)
        payload = {"options": {"job_id": "nightly", "meta": {"a": 1}}}
        for count in (1, 2, 3):
            scheduler.set("nightly", delay=0, target="rq", handler="tasks.note", payload=payload)
            told.wait_for(lambda count=count: sum(isinstance(each, JobSucceeded) for each in told.items) == count)
            assert client.llen("rq:queue:jobs") == count
        (found,) = {each.id: each for each in rq.Queue("jobs", connection=client).get_jobs()}.values()
        assert found.meta["a"] == 1
        assert found.meta["tickwheel-key"] == "nightly"
        firing = Firing(Job("one", 1, 0, json.dumps(payload).encode(), handler="tasks.note"), 1, 0.0)

        async def send_twice():
            for _ in range(2):
                assert await target.resolve("tasks.note").function(firing) is None
            await target.close()

        asyncio.run(send_twice())
        assert client.llen("rq:queue:jobs") == 4


def test_a_job_that_depends_on_another(client, redis_server):
    """
    An RQ job that depends on another job waits in RQ until that job has ended.

    A repeat of its message is not enqueued.
    """
    rq = pytest.importorskip("rq", reason="rq is not installed: pip install 'tickwheel[rq]'")
    import redis  # noqa: PLC0415 only where it is installed

    with redis.Redis.from_url(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/1") as connection:
        target = RqTarget(connection, queue="jobs")
        queue = rq.Queue("jobs", connection=client)
        first = queue.enqueue_call("tasks.note", job_id="first")
        payload = {"args": [2], "options": {"depends_on": "first"}}
        firing = Firing(Job("one", 1, 0, json.dumps(payload).encode(), handler="tasks.note"), 1, 0.0)

        async def send_twice():
            for _ in range(2):
                assert await target.resolve("tasks.note").function(firing) is None
            await target.close()

        asyncio.run(send_twice())
        assert queue.get_job_ids() == ["first"]
        assert queue.deferred_job_registry.get_job_ids() == [firing.message_id]
        assert [each.decode() for each in client.smembers(first.dependents_key)] == [firing.message_id]


class TestDramatiq(LongOutage, TargetSuite):
    """
    Dramatiq, with its Redis broker.
    """

    library, extra = "dramatiq", "dramatiq"
    connections_at_once = 32
    bad_handlers = ("", "a b")

    @pytest.fixture(autouse=True)
    def _receiver(self, queue_receiver):
        pytest.importorskip("dramatiq", reason="dramatiq is not installed: pip install 'tickwheel[dramatiq]'")
        from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415 only where it is installed

        made = []

        class Receiver(queue_receiver):
            def make_target(self):
                broker = RedisBroker(url=self.url)
                made.append(broker)
                return DramatiqTarget(broker, queue="jobs")

            def received(self):
                order = self.client.lrange("dramatiq:jobs", 0, -1)  # read first, as the other list only grows
                found = self.client.hgetall("dramatiq:jobs.msgs")
                return [self._read(json.loads(found[each])) for each in order]

            def _read(self, entry):
                return Received(
                    entry["message_id"], entry["options"]["tickwheel"]["tickwheel-fire-id"], entry["args"][0]
                )

        self.make_receiver = Receiver
        yield
        for broker in made:
            broker.client.close()


class TestTaskiq(LongOutage, TargetSuite):
    """
    The taskiq library, with the list broker of taskiq-redis.
    """

    library, extra = "taskiq", "taskiq"
    connections_at_once = 64  # redis-py opens another connection if it finds a broken one in its pool
    bad_handlers = ("", "a b")

    @pytest.fixture(autouse=True)
    def _receiver(self, queue_receiver):
        taskiq_redis = pytest.importorskip("taskiq_redis", reason="taskiq-redis is not installed")

        class Receiver(queue_receiver):
            def make_target(self):
                return TaskiqTarget(taskiq_redis.ListQueueBroker(self.url, queue_name="jobs"))

            def received(self):
                return [self._read(json.loads(entry)) for entry in reversed(self.client.lrange("jobs", 0, -1))]

            def _read(self, entry):
                return Received(entry["task_id"], entry["labels"]["tickwheel-fire-id"], entry["args"][0])

        self.make_receiver = Receiver
