"""
The Kafka target on the mock cluster of librdkafka: the target suite, and the features of Kafka.

Neither Debian nor PyPI has a Kafka broker. The mock cluster speaks the real protocol over real sockets, and its
brokers can be stopped and slowed down.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
from pathlib import Path

import pytest
from outages import LongOutage

from tickwheel.observe.events import JobDied, JobSucceeded
from tickwheel.scheduler import Firing, InvalidJobError, Job, Scheduler, Snooze
from tickwheel.targets.kafka import KafkaTarget
from tickwheel.testing.target_suite import Received, TargetSuite

NUMBERS = itertools.count()
BROKER = 1
PRODUCE = 0
"""The protocol's number for a produce request."""
QUOTA_EXCEEDED = 89
"""The protocol's code for THROTTLING_QUOTA_EXCEEDED."""


class Cluster:
    """
    A mock broker, controlled through librdkafka's C interface.
    """

    def __init__(self, library):
        self._c = library
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(library, name).restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        conf = ctypes.c_void_p(library.rd_kafka_conf_new())
        message = ctypes.create_string_buffer(200)
        self._client = ctypes.c_void_p(library.rd_kafka_new(0, conf, message, 200))
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._client, 1))
        self.servers = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def add_topic(self, name):
        """
        Create a topic with one partition.
        """
        assert self._c.rd_kafka_mock_topic_create(self._cluster, name.encode(), 1, 1) == 0

    def set_down(self):
        """
        Refuse connections, and break the existing ones.
        """
        assert self._c.rd_kafka_mock_broker_set_down(self._cluster, BROKER) == 0

    def set_up(self):
        """
        Accept connections again.
        """
        assert self._c.rd_kafka_mock_broker_set_up(self._cluster, BROKER) == 0

    def delay_a_confirm(self, ms):
        """
        Store the records of the next request at once, but send the answer after *ms*.
        """
        push = self._c.rd_kafka_mock_broker_push_request_error_rtts
        one = ctypes.c_size_t(1)
        no_error = ctypes.c_int(0)
        assert push(self._cluster, BROKER, PRODUCE, one, no_error, ctypes.c_int(ms)) == 0

    def throttle(self, count):
        """
        Answer the next *count* requests with "quota exceeded".

        A *count* of 0 ends this.
        """
        key = ctypes.c_int16(PRODUCE)
        self._c.rd_kafka_mock_clear_request_errors(self._cluster, key)
        errors = (ctypes.c_int * count)(*[QUOTA_EXCEEDED] * count)
        self._c.rd_kafka_mock_push_request_errors_array(self._cluster, key, ctypes.c_size_t(count), errors)

    def close(self):
        """
        Stop the cluster.
        """
        self._c.rd_kafka_mock_cluster_destroy(self._cluster)
        self._c.rd_kafka_destroy(self._client)


@pytest.fixture(scope="module")
def cluster():
    """
    Return a running cluster.
    """
    kafka = pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed: pip install 'tickwheel[kafka]'"
    )
    found = sorted(Path(kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"))
    if not found:
        pytest.skip("this build of confluent-kafka does not bring librdkafka with it")
    made = Cluster(ctypes.CDLL(str(found[0])))
    yield made
    made.close()


class Receiver:
    """
    A new topic of a mock cluster, and the records sent to it.
    """

    secret = ""

    def __init__(self, cluster):
        import confluent_kafka  # noqa: PLC0415  only where it is installed

        self.handler = f"topic-{next(NUMBERS)}"
        self._cluster = cluster
        self.servers = cluster.servers
        cluster.add_topic(self.handler)
        self._records = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.servers,
                "group.id": self.handler,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(self.handler, 0, 0)])

    def make_target(self, **options):
        """
        Return a target for the cluster with short timeouts.
        """
        config = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "socket.timeout.ms": 1000}
        return KafkaTarget(self._cluster.servers, **{"config": config, "timeout_s": 1.5, **options})

    def payload(self, value):
        return {"value": value}

    @property
    def records(self):
        while (record := self._consumer.poll(0.05)) is not None:
            if record.error() is None:
                self._records.append(record)
        return self._records

    def received(self):
        """
        Return the records of the topic.
        """
        found = [(dict(record.headers()), record.value()) for record in self.records]
        return [
            Received(headers["message-id"].decode(), headers["tickwheel-fire-id"].decode(), json.loads(body)["value"])
            for headers, body in found
        ]

    def go_away(self):
        """
        Stop the broker.
        """
        self._cluster.set_down()

    def come_back(self):
        """
        Restart the broker.
        """
        self._cluster.set_up()

    def fill(self):
        """
        Make the broker answer that a quota is exceeded.
        """
        self._cluster.throttle(10_000)

    def make_room(self):
        """
        Make the broker accept records again.
        """
        self._cluster.throttle(0)

    def lose_confirms(self):
        """
        Make the broker answer the next request later than the client's timeout.
        """
        self._cluster.delay_a_confirm(60_000)

    stall = reset_all = go_away
    go_on = come_back

    def resets(self):
        """
        Return nothing: the cluster does not count resets.
        """
        return 0

    def close(self):
        """
        Close the consumer.
        """
        self.come_back()
        self.make_room()
        self._consumer.close()


@pytest.fixture
def receiver(cluster):
    """
    Return an empty topic.
    """
    made = Receiver(cluster)
    yield made
    made.close()


class TestKafka(LongOutage, TargetSuite):
    """
    The suite of targets, on Kafka.
    """

    library, extra = "confluent_kafka", "kafka"
    bad_handlers = ("", "a b", "a/b", "..", "ä", "x" * 250)
    takes_largest = False

    @pytest.fixture(autouse=True)
    def _receiver(self, receiver):
        self.make_receiver = lambda: receiver


def test_a_record_has_the_key_of_its_job(receiver, make, events):
    """
    A record has the key of its job.

    Kafka keeps the order of records that have the same key, so the firings of one job stay in order.
    """
    scheduler = make("memory://", targets={"kafka": receiver.make_target()}).start()
    told = events(scheduler)
    scheduler.set("kä/y", delay=0, target="kafka", handler=receiver.handler, payload={"value": 1})
    told.of(JobSucceeded)
    while not (records := receiver.records):
        pass  # until the consumer has received its first record
    assert [record.key().decode() for record in records] == ["kä/y"]


def test_a_full_queue_of_the_client(cluster, receiver):
    """
    If the brokers accept nothing, librdkafka's own queue becomes full.

    Further records then wait, too.
    """
    target = receiver.make_target(config={"queue.buffering.max.messages": 1}, timeout_s=2)
    cluster.set_down()

    async def send():
        firings = [Firing(Job(f"{number}", 1, 0, handler=receiver.handler), 1, 0.0) for number in range(3)]
        answers = await asyncio.gather(*(target.resolve(receiver.handler).function(each) for each in firings))
        await target.close()
        return answers

    answers = asyncio.run(send())
    assert all(isinstance(each, Snooze) for each in answers)
    assert any("Queue full" in each.reason for each in answers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": {"acks": "1"}}, "config is 'acks': leave it out"),
        ({"config": {"enable.idempotence": False}}, "config is 'enable.idempotence': leave it out"),
        ({"timeout_s": 0}, "timeout_s is 0"),
    ],
)
def test_bad_options(options, message):
    """
    Options that would break the guarantees are refused when the target is made.
    """
    with pytest.raises(InvalidJobError, match=message):
        KafkaTarget(**options)


def test_an_unknown_setting(receiver, make, events):
    """
    If librdkafka does not know a setting, the job becomes a dead letter.

    The error names the setting, and shows no password.
    """
    target = receiver.make_target(config={"sasl.pasword": "hunter2"})
    scheduler = make("memory://", targets={"kafka": target}).start()
    told = events(scheduler)
    scheduler.set("one", delay=0, target="kafka", handler=receiver.handler)
    error = told.of(JobDied)[0].error
    assert "sasl.pasword" in error
    assert "hunter2" not in error


def test_served(receiver, serve, tmp_path):
    """
    `tickwheel serve` sends to a Kafka target that an option defines, and uses the settings of that option.
    """
    client = Scheduler(f"sqlite:///{tmp_path}/tickwheel.db", targets={"bus": receiver.make_target()})
    client.set("one", delay=0, target="bus", handler=receiver.handler, payload={"value": 17})
    client.stop()
    serve("--target", f"bus=kafka://{receiver.servers}?linger.ms=1&timeout_s=20")
    found = next(filter(None, (receiver.received() for _ in range(1_000))), [])  # each call waits for a record
    assert [each.value for each in found] == [17]
