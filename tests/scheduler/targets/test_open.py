"""
Each URL scheme makes a target with its options. Wrong URLs are refused.
"""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import timedelta
from unittest import mock

import pytest

from tickwheel.errors import MissingExtraError
from tickwheel.scheduler import InvalidJobError
from tickwheel.targets import make_target, shown_target
from tickwheel.targets.amqp import AmqpTarget
from tickwheel.targets.celery import CeleryTarget
from tickwheel.targets.dramatiq import DramatiqTarget
from tickwheel.targets.kafka import KafkaTarget
from tickwheel.targets.nats import NatsTarget
from tickwheel.targets.redis_stream import RedisStreamTarget
from tickwheel.targets.rq import RqTarget
from tickwheel.targets.taskiq import TaskiqTarget
from tickwheel.targets.webhook import WebhookTarget

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  a test's


@pytest.mark.parametrize(
    ("url", "kind", "fields"),
    [
        ("redis://h/1?length_max=5&once_s=60", "RedisStreamTarget", {"_length_max": 5, "_once_s": 60}),
        ("rediss://h?ssl_cert_reqs=none&timeout_s=2.5", "RedisStreamTarget", {"_timeout_s": 2.5}),
        ("redis://h?once_s=1m30s&timeout_s=PT1M", "RedisStreamTarget", {"_once_s": 90, "_timeout_s": 60.0}),
        ("unix:///run/redis.sock?db=2", "RedisStreamTarget", {}),
        ("AMQPS://u:p@h/vhost?heartbeat=9&timeout_s=3", "AmqpTarget", {"_timeout_s": 3.0}),
        ("nats://u:p@h:4222?jetstream=False", "NatsTarget", {"_is_jetstream": False}),
        ("tls://h", "NatsTarget", {"_is_jetstream": True}),
        ("kafka://a:1,b:2/?timeout_s=4&linger.ms=7", "KafkaTarget", {}),
        (f"webhook:?secret={SECRET}&allow=10.1.0.0/16&allow=127.0.0.1&open_s=9", "WebhookTarget", {}),
        ("celery+amqp://u:p@h/?timeout_s=5", "CeleryTarget", {"_timeout_s": 5.0}),
        ("rq+redis://h/1?queue=slow", "RqTarget", {"_queue": "slow"}),
        ("dramatiq+redis://h/1?queue=slow", "DramatiqTarget", {"_queue": "slow"}),
    ],
)
def test_kinds(url, kind, fields):
    """
    The scheme of a URL selects the target.

    The options that tickwheel defines become arguments of the target.
    """
    made = make_target(url)
    assert type(made).__name__ == kind
    assert {name: getattr(made, name) for name in fields} == fields
    asyncio.run(made.close())


@pytest.mark.parametrize(
    "url",
    [
        *("redis://h", "amqp://h", "nats://h", "kafka://h:9092", "webhook:", "celery+amqp://h", "celery+redis://h"),
        *("rq+redis://h", "dramatiq+redis://h"),
    ],
)
def test_each_target_accepts_a_rate(url):
    """
    Each target accepts a rate limit in its URL.
    """
    for made, rate in ((make_target(url), None), (make_target(f"{url}?rate=0.5"), 0.5)):
        limits = made.limits("tickwheel")
        assert (limits and limits.rate) == rate
        asyncio.run(made.close())


def test_the_rate_of_an_object():
    """
    The taskiq target has no URL, and accepts a rate limit as an argument.
    """
    taskiq = pytest.importorskip("taskiq", reason="taskiq is not installed: pip install 'tickwheel[taskiq]'")
    assert TaskiqTarget(taskiq.InMemoryBroker(), rate=20).limits("tasks:mail").rate == 20
    for rate in (0, -1, float("inf"), True, "20"):
        with pytest.raises(InvalidJobError, match="rate is "):
            TaskiqTarget(taskiq.InMemoryBroker(), rate=rate)


@pytest.mark.parametrize(
    ("lacks", "message"),
    [
        ("packaging", r"packaging, which kombu needs, is not installed: pip install 'tickwheel\[celery\]'"),
        ("redis", r"redis.* is not installed: pip install 'tickwheel\[celery\]'"),
        ("celery", r"celery is not installed: pip install 'tickwheel\[celery\]'"),
    ],
)
def test_a_missing_library_of_a_library(make, caplog, lacks, message):
    """
    If a target's library lacks another library that it needs, the error names the missing library.

    The scheduler also logs this error when it starts.
    """
    pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    target = make_target("celery+redis://127.0.0.1:1/0")
    lost = {name for name in sys.modules if name.partition(".")[0] == lacks or name.startswith("kombu.transport.redis")}
    missing = dict.fromkeys((lacks, *(each for each in lost if not each.startswith("kombu"))))
    kept = {name: each for name, each in sys.modules.items() if name not in lost}
    with mock.patch.dict(sys.modules, kept | missing, clear=True), caplog.at_level("WARNING"):
        with pytest.raises(MissingExtraError, match=message):
            target.resolve("tasks.note")
        make("memory://", targets={"celery": target}).start()
    assert any(re.search(message, each.getMessage()) for each in caplog.records)


@pytest.mark.parametrize("value", [timedelta(seconds=90), "1m30s", "PT90S", 90])
def test_seconds_of_targets(value):
    """
    Targets accept durations in every form, and refuse durations that are not positive.
    """
    makers = {
        lambda length: AmqpTarget(timeout_s=length): "_timeout_s",
        lambda length: NatsTarget(timeout_s=length): "_timeout_s",
        lambda length: RedisStreamTarget(timeout_s=length): "_timeout_s",
        lambda length: RedisStreamTarget(once_s=length): "_once_s",
        lambda length: WebhookTarget(timeout_s=length): "_timeout_s",
        lambda length: CeleryTarget(mock.Mock(), timeout_s=length): "_timeout_s",
        lambda length: RqTarget(mock.Mock(), timeout_s=length): "_timeout_s",
        lambda length: DramatiqTarget(mock.Mock(), timeout_s=length): "_timeout_s",
        lambda length: TaskiqTarget(mock.Mock(), timeout_s=length): "_timeout_s",
    }
    for make, name in makers.items():
        assert getattr(make(value), name) == 90
        with pytest.raises(InvalidJobError, match="pass seconds, more than 0"):
            make("0s")
    assert KafkaTarget(timeout_s=value)._config["message.timeout.ms"] == 90_000


@pytest.mark.parametrize("kind", ["rq", "dramatiq"])
def test_sockets_of_queues(kind):
    """
    The client of a queue has socket timeouts that are at most as long as the timeout of the target.
    """
    made = make_target(f"{kind}+redis://h?timeout_s=7")
    client = made._connection if kind == "rq" else made._broker.client
    options = client.connection_pool.connection_kwargs
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (7, 7)
    client.close()


def test_options_of_the_library():
    """
    Options that tickwheel does not define stay in the URL unchanged.

    For Kafka, such options are settings, and the %-escapes in them are decoded.
    """
    assert make_target("amqp://h/?timeout_s=3&cafile=%2Fetc%2Fa+b")._destination.url == "amqp://h/?cafile=%2Fetc%2Fa+b"
    config = make_target("kafka://a:1,b:2?sasl.password=a%26b+c")._config
    assert (config["bootstrap.servers"], config["sasl.password"]) == ("a:1,b:2", "a&b+c")


def test_secrets_of_webhooks():
    """
    A plus sign in the secret of a webhook's URL is not read as a space.

    If there are several secrets, a message has one signature for each of them.
    """
    plus = "whsec_" + "+/" * 16
    assert len(make_target(f"webhook:?secret={SECRET}&secret={plus}")._keys) == 2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hunter2", "url is '\\*\\*\\*': its scheme is one of redis, .*celery\\+"),
        ("", "its scheme is one of"),
        ("http://u:hunter2@h", "url is 'http://\\*\\*\\*@h': its scheme is one of"),
        ("celery://h", "its scheme is one of"),
        ("amqp+redis://h", "its scheme is one of"),
        ("amqp://u:hunter2/x@h/", "its host or port cannot be read: .* with %-escapes"),
        ("amqp://u:hunter2?x@h/", "option is '\\*\\*\\*': the options are timeout_s, rate, heartbeat"),
        ("redis://h?lenght_max=1", "option is 'lenght_max': the options are length_max, once_s, timeout_s"),
        ("redis://h?length_max=99999999999999999999", "length_max is 99999999999999999999: pass an integer in 1.."),
        ("rq+redis://h?timeout_s=inf", "timeout_s is inf: pass seconds, more than 0 and at most 2147483"),
        ("kafka://h:9092?timeout_s=inf", "timeout_s is inf: pass seconds, more than 0 and at most 2147483"),
        ("redis://h?length_max=1.5", "length_max is '1.5': write a whole number"),
        ("redis://h?once_s=soon", "once_s is 'soon': write seconds, such as 2.5; or write numbers with units"),
        ("redis://h?once_s=0", "once_s is 0.0: pass seconds, more than 0"),
        ("redis://h?once_s=1&once_s=2", "once_s is 'there twice': write it once"),
        ("amqp://h?timeout_s=soon", "timeout_s is 'soon': write seconds"),
        ("amqp://h?timeout_s=nan", "timeout_s is nan"),
        ("nats://h?jetstream=perhaps", "jetstream is 'perhaps': write true or false"),
        ("kafka://", "it names no brokers"),
        ("kafka://u:hunter2@h:9092", "write sasl.username= and sasl.password= after the question mark"),
        ("kafka://h?acks=1", "leave it out"),
        ("webhook://example.com/", "each job names its own address"),
        ("webhook:?secret=hunter2", "write the key in base64"),
        ("webhook:?allow=10.0.0.300", "allow is '10.0.0.300': .* write a network such as 10.1.0.0/16"),
        ("nats://h?rate=fast", "rate is 'fast': write a number, such as 20"),
        ("kafka://h:9092?rate=0", "rate is 0.0: pass"),
        ("celery+redis://h?rate=nan", "rate is nan: pass"),
        ("celery+sqs://h", "celery goes by celery\\+amqp://"),
        ("dramatiq+amqp://u:hunter2@h", "dramatiq goes by dramatiq\\+redis://"),
        ("rq+redis:h", "rq goes by rq\\+redis://"),
        ("rq+redis://h/0?protocol=3", "option is 'protocol': the options are queue, timeout_s, rate, db"),
    ],
)
def test_urls_that_name_no_target(url, message):
    """
    A URL that does not name a target is refused.

    The error names the remedy and does not show the password.
    """
    with pytest.raises(InvalidJobError, match=message) as caught:
        make_target(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [
        ("redis://h", "redis", "redis"),
        ("amqp://h", "aio_pika", "amqp"),
        ("nats://h", "nats", "nats"),
        ("kafka://h:9092", "confluent_kafka", "kafka"),
        ("webhook:", "aiohttp", "webhook"),
        ("celery+amqp://h", "celery", "celery"),
        ("celery+redis://h", "redis", "redis"),
        ("rq+redis://h", "rq", "rq"),
        ("dramatiq+redis://h", "dramatiq", "dramatiq"),
        ("dramatiq+redis://h", "redis", "redis"),
    ],
)
def test_missing_library(url, library, extra):
    """
    If the library of a target is missing, the error is raised at once, and names the extra to install.
    """
    missing = {name: None for name in sys.modules if name.partition(".")[0] == library}
    with (
        mock.patch.dict(sys.modules, {library: None, **missing}),
        pytest.raises(MissingExtraError, match=rf"pip install 'tickwheel\[{extra}\]'"),
    ):
        make_target(url, has_to_run=True)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://u:hunter2@h/v?password=hunter2", "amqp://***@h/v"),
        ("redis://h/0", "redis://h/0"),
        ("kafka://h:9?sasl.password=hunter2", "kafka://h:9"),
        ("webhook:?secret=hunter2", "webhook:"),
        ("celery+redis://:hunter2@h", "celery+redis://***@h"),
        ("amqp://u:hunter2?x@h/", "amqp:***"),
        ("hunter2", "***"),
    ],
)
def test_a_url_is_shown_without_secrets(url, shown):
    """
    A URL is shown without user, password and options.
    """
    assert shown_target(url) == shown
