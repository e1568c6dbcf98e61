"""
The command `tickwheel serve` with targets that options and environment variables define, on real brokers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from urllib.parse import unquote

import pytest

SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL
APP = """
from celery import Celery
app = Celery("shop", broker={url!r})
app.conf.task_routes = {{"tasks.note": {{"queue": "routed"}}}}
nothing = None
"""


@pytest.fixture
def tick(tmp_path, monkeypatch):
    """
    Return a function that runs a command of tickwheel in the test's folder, with the environment variables of the test.
    """
    monkeypatch.delenv("TICKWHEEL_STORE", raising=False)

    def run(*arguments):
        command = [sys.executable, "-P", "-m", "tickwheel.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    run.name = lambda target, value: monkeypatch.setenv(f"TICKWHEEL_TARGET_{target.upper()}", value)
    return run


@pytest.fixture
def client(redis_server):
    """
    Return a client of an empty database.
    """
    import redis  # noqa: PLC0415  only where it is installed

    with redis.Redis.from_url(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/3", decode_responses=True) as made:
        made.flushdb()
        made.place = f"://:{SECRET}@127.0.0.1:{redis_server.port}/3"
        yield made


def set_one(tick, name, handler, payload='{"value": 17}'):
    """
    Set a job that is due at once, from another client of the store.
    """
    answer = tick("set", "one", "--delay", "0", "--target", name, "--handler", handler, "--payload", payload)
    assert answer.returncode == 0, answer.stderr


def printed(process):
    """
    Return the lines that a server prints at its start, up to the address of its page.
    """
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("page"):
            return "".join(lines)
    raise AssertionError("".join(lines))


def test_redis_stream(client, tick, serve):
    """
    An environment variable defines a named target for a Redis.

    `set` and `serve` use this name, and the server shows the URL without the password.
    """
    tick.name("stream", f"redis{client.place}?length_max=10&timeout_s=5")
    set_one(tick, "stream", "orders")
    text = printed(serve())
    assert f"target stream is redis://***@{client.place.partition('@')[2]}\n" in text
    assert "hunter2" not in text
    ((_, entries),) = client.xread({"orders": "0"}, block=30_000)
    assert entries[0][1]["payload"] == '{"value":17}'


def test_rabbitmq(rabbitmq, loop, tick, serve):
    """
    An option that defines a RabbitMQ target takes precedence over an environment variable for the same name.
    """
    import aio_pika  # noqa: PLC0415  only where it is installed

    url = f"amqp://tick:{SECRET}@127.0.0.1:{rabbitmq.port}/"

    async def declare():
        connection = await aio_pika.connect(url)
        queue = await (await connection.channel()).declare_queue("served")
        return connection, queue

    connection, queue = loop.run(declare())
    tick.name("rabbit-mq", "amqp://nobody@127.0.0.1:1/")
    set_one(tick, "rabbit-mq", "served")
    serve("--target", f"rabbit-mq={url}?timeout_s=5&heartbeat=30")

    async def first():
        async with queue.iterator(timeout=30) as messages:
            return await anext(messages)

    assert json.loads(loop.run(first()).body) == {"value": 17}
    loop.run(connection.close())


def test_nats(nats_server, loop, tick, serve):
    """
    `tickwheel serve` sends to a NATS target without JetStream that an option defines.
    """
    import nats  # noqa: PLC0415  only where it is installed

    url = f"nats://tick:{SECRET}@127.0.0.1:{nats_server.port}?jetstream=no"
    client = loop.run(nats.connect(f"nats://127.0.0.1:{nats_server.port}", user="tick", password=unquote(SECRET)))
    listener = loop.run(client.subscribe("served.orders"))
    loop.run(client.flush())
    tick.name("bus", url)
    set_one(tick, "bus", "served.orders")
    serve()
    assert json.loads(loop.run(listener.next_msg(timeout=30)).data) == {"value": 17}
    loop.run(client.close())


@pytest.mark.parametrize(
    "names",
    [
        ("celery+redis", "tasks.note", "mine"),
        ("rq+redis", "tasks.note", "rq:queue:mine"),
        ("dramatiq+redis", "note", "dramatiq:mine"),
    ],
)
def test_queues(client, tick, serve, names):
    """
    A URL of a broker defines a target for Celery, RQ or Dramatiq.

    Tasks go into the queue that the URL names.
    """
    scheme, handler, queue = names
    pytest.importorskip(scheme.partition("+")[0])
    tick.name("queue", f"{scheme}{client.place}?queue=mine")
    set_one(tick, "queue", handler, '{"args": [17]}')
    assert "hunter2" not in printed(serve("--log-level", "debug"))
    taken = client.blmove(queue, "taken", 30)
    assert taken is not None


def test_an_application_of_the_user(client, tick, serve, tmp_path):
    """
    A target may be given as the name of an object in a module of the user, such as a Celery application.

    The type of the object selects the library.
    """
    pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    (tmp_path / "shop.py").write_text(APP.format(url=f"redis{client.place}"))
    tick.name("celery", "shop:app")
    set_one(tick, "celery", "tasks.note", '{"args": [17]}')
    assert "target celery is shop:app\n" in printed(serve())
    assert client.blmove("routed", "taken", 30) is not None


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("hunter2", "--target '***' names no target"),
        ("X=amqp://tick:hunter2@host/", "--target 'X' names no target"),
        ("amqp://tick:hunter2@host/?heartbeat=9", "--target 'amqp://***@host/' names no target"),
        ("pull=amqp://localhost/", "the target 'pull' is built in: give yours another name"),
        ("x=mysql://tick:hunter2@host/", "url is 'mysql://***@host/': its scheme is one of redis"),
        ("x=kafka://localhost:9?foo=bar", 'No such configuration property: "foo"'),
        ("x=json:dumps", "cannot be made of json:dumps: name an application of Celery"),
        ("x=no_such_module:app", "the module 'no_such_module' cannot be imported"),
    ],
)
def test_urls_that_name_no_target(tick, option, message):
    """
    A URL that names no target is refused before anything starts.

    The error is one line and does not show the password.
    """
    if "kafka" in option:
        pytest.importorskip(
            "confluent_kafka", reason="confluent-kafka is not installed: pip install 'tickwheel[kafka]'"
        )
    answer = tick("serve", "--port", "0", "--target", option)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert "hunter2" not in answer.stderr


def test_two_options_with_one_name_are_refused(tick):
    """
    Two options that define the same name are refused.
    """
    answer = tick("serve", "--target", "a=amqp://one/", "--target", "a=amqp://two/")
    assert (answer.returncode, "--target 'a' is there twice" in answer.stderr) == (2, True)


def test_unknown_target(tick):
    """
    Setting a job for an undefined target raises an error, which says how to define the target.
    """
    answer = tick("set", "one", "--delay", "0", "--target", "rabbitmq", "--handler", "orders")
    assert (answer.returncode, "tickwheel serve --target NAME=URL" in answer.stderr) == (2, True)


def test_doctor(tick):
    """
    `tickwheel doctor` makes the targets that the environment names, and reports their faults.
    """
    tick.name("good", "amqp://tick:hunter2@localhost/")
    tick.name("bad", "amqp://tick:hunter2@localhost/?wrong=1")
    tick.name("empty", "")
    answer = tick("doctor", "--json")
    found = {each["check"]: each for each in map(json.loads, answer.stdout.splitlines())}
    assert (answer.returncode, found["target good"]["finding"]) == (1, "amqp://***@localhost/")
    assert (found["target bad"]["ok"], "option is 'wrong'" in found["target bad"]["finding"]) == (False, True)
    assert "target empty" not in found
    assert "hunter2" not in answer.stdout + answer.stderr
