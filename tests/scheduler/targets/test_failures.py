"""
The table of failures in docs/targets.md agrees with the options that each target gives to its test suite.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITES = {
    "Webhook": ("test_webhook_suite.py", "TestWebhook"),
    "RabbitMQ": ("test_amqp.py", "TestAmqp"),
    "NATS": ("test_nats.py", "TestNats"),
    "Redis": ("test_redis_stream.py", "TestRedisStream"),
    "Kafka": ("test_kafka.py", "TestKafka"),
    "Celery": ("test_queues.py", "TestCelery"),
    "RQ": ("test_queues.py", "TestRq"),
    "Dramatiq": ("test_queues.py", "TestDramatiq"),
    "taskiq": ("test_queues.py", "TestTaskiq"),
}
KEEPS_CONNECTION = ("RabbitMQ", "NATS", "Redis")
"""
Targets that wait for a late answer on the open connection, so that they send the message only once.

Other targets give up the connection after a timeout, and send the message again.
"""
WAITS = ("cannot be reached", "breaks off in the middle", "does not answer in time", "is full")


@pytest.fixture(scope="module")
def table():
    """
    Return the verdicts of the table in docs/targets.md, by failure and target.
    """
    lines = (HERE.parents[2] / "docs" / "targets.md").read_text("utf-8").splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("| the receiver |"))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[first:] if line.startswith("|")]
    end = next(number for number, line in enumerate(lines[first:]) if not line.startswith("|"))
    header, _, *body = rows[:end]
    return {name: dict(zip(header[1:], cells, strict=True)) for name, *cells in body}


def flags(target):
    """
    Return the options that are set in the test suite of *target*.
    """
    file, name = SUITES[target]
    tree = ast.parse((HERE / file).read_text("utf-8"))
    (suite,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    assert {base.id for base in suite.bases} == {"LongOutage", "TargetSuite"}
    found = {}
    for each in suite.body:
        if (
            isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and isinstance(each.value, ast.Constant)
        ):
            found[each.targets[0].id] = each.value.value
    return found


def test_each_target_is_there(table):
    """
    The table in docs/targets.md has a column for each target.

    If the receiver is full or cannot be reached, jobs of all targets wait. If it refuses a message, the attempt fails.
    """
    assert all(row.keys() == SUITES.keys() for row in table.values())
    for failure in WAITS:
        assert {verdict.partition(",")[0] for verdict in table[failure].values()} == {"waits"}
    assert set(table["refuses the message, or the password"].values()) == {"fails"}


@pytest.mark.parametrize("target", SUITES)
def test_the_table_agrees_with_the_suites(table, target):
    """
    The table agrees with the options of each target's test suite.

    The options show whether repeated messages are recognised, and whether a large message becomes a dead letter.
    """
    found = flags(target)
    # for NATS, a text in the table says that it recognises a repeat with JetStream
    knows_repeats = found.get("knows_repeats", target == "NATS")
    assert table["breaks off in the middle"][target] == ("waits" if knows_repeats else "waits, twice")
    waits_on = knows_repeats or target in KEEPS_CONNECTION
    assert table["does not answer in time"][target] == ("waits" if waits_on else "waits, twice")
    dies = table["finds the message too large"][target] == "dies"
    assert dies is not found.get("takes_largest", True)
