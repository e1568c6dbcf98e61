"""
Tests of the parts of the growth proof.

`make prove` runs the whole proof.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from caller import Caller, Counts, Life, Start, judge
from growth import PAGE, Shell, Step, steps_of, table

from tickwheel.cli.migrate import command as migrate
from tickwheel.cli.serve import command as serve

STEPS = steps_of(PAGE.read_text("utf-8"))
COMMANDS = {"migrate": migrate, "serve": serve}
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
ALL = "\n".join(code for step in STEPS for code, _ in step.parts)


def test_the_page_has_every_step():
    """
    The steps of docs/scale.md lead from a file to a cluster that loses a master.
    """
    assert [step.name for step in STEPS] == [
        "One file",
        "PostgreSQL",
        "Three nodes",
        "More shards",
        "A synchronous standby",
        "Its failover",
        "Redis Cluster of six",
        "A master killed",
    ]
    urls = [url for step in STEPS for _, url in step.parts if url]
    assert urls == ['"$FILE"', '"$ONE"', '"$MORE"', '"$PAIR"', '"$CLUSTER"']
    assert all(f"export {url.strip('$' + chr(34))}=" in ALL for url in urls)


def test_callers_are_followed_by_a_second_migration():
    """
    In docs/scale.md, each step that moves jobs repeats the migration command after callers have got the new URL.
    """
    moves = [step for step in STEPS if "tickwheel migrate" in step.parts[0][0]]
    assert [step.name for step in moves] == ["PostgreSQL", "Redis Cluster of six"]
    for step in moves:
        (before, url), (after, _) = step.parts
        command = before.splitlines()[-1]
        assert command.endswith(url)
        assert after.splitlines()[0] == command


@needs_bash
def test_the_page_is_bash():
    """
    Every block of docs/scale.md is valid bash, and each tickwheel command and option in it exists.
    """
    done = subprocess.run(["bash", "-n"], input=ALL, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name, rest in re.findall(r"tickwheel (\w+)([^\n&]*)", ALL):
        options = {option for each in COMMANDS[name].params for option in each.opts}
        assert set(re.findall(r" (--[\w-]+)", rest)) <= options


def test_steps_are_cut_where_callers_change():
    """
    The commands of a step are split at each comment that gives callers a new URL.

    Text outside of blocks, and other sections of the page, are ignored.
    """
    section = "## The steps, command by command\n\ntext\n\n### One\n\ntext\n\n```\na\n# callers use $B\nc\n```\n\n"
    page = f"### Not this\n\n{section}```\nd\n```\n\n### Two\n\n```\ne\n```\n\n## Another\n\n```\nf\n```\n"
    assert steps_of(page) == [Step("One", (("a", "$B"), ("c\nd", ""))), Step("Two", (("e", ""),))]


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path, dict(os.environ))
    yield made
    made.end()


@needs_bash
def test_a_shell_keeps_its_state(shell, tmp_path):
    """
    Variables, functions and processes of a shell last from one command to the next.
    """
    shell.run('export A="a b"; f() { cat; echo "$1" > said; }')
    shell.run('f "$A"')
    assert (tmp_path / "said").read_text() == "a b\n"
    assert shell.value('"$A"') == "a b"
    shell.run("sleep 100 & PROCESS=$!")
    shell.run('kill "$PROCESS"')


@pytest.mark.parametrize("code", ["false", "true\nfalse\ntrue", "f() { false; true; }; f", "exit 3"])
@needs_bash
def test_a_command_that_fails_is_named(shell, code):
    """
    If a command in a block fails, the shell raises an error that names the command.

    An `exit` in the block also raises an error.
    """
    with pytest.raises(RuntimeError, match=r"false|exit"):
        shell.run(code)


@needs_bash
def test_a_shell_ends_its_processes(tmp_path):
    """
    When a shell ends, all processes that it started end, too.
    """
    shell = Shell(tmp_path, dict(os.environ))
    shell.run("mkfifo pipe; sleep 100 > pipe &")
    with (tmp_path / "pipe").open() as pipe:  # returns once the process has opened it, too
        shell.end()
        assert pipe.read() == ""  # returns once the process has ended


@needs_bash
def test_a_node_that_ends_is_not_waited_for(shell):
    """
    The bash function in docs/scale.md that starts a node fails as soon as the node ends.

    It does not wait for the rest of its timeout.
    """
    shell.run(STEPS[0].parts[0][0].partition("read -r")[0])
    shell.run(f'PATH="{Path(sys.executable).parent}:$PATH"')
    with pytest.raises(RuntimeError, match=r"no store|nonsense") as caught:
        shell.run('node "nonsense:" 1')
    assert "has no end" not in str(caught.value)


class Told(Caller):
    """
    A caller that makes no calls. Instead, the test passes records of the jobs that the caller has set.
    """

    def __init__(self, *lives):
        super().__init__(seed=0)
        self.lives += lives
        self.acknowledged["step"] = len(lives)


@pytest.mark.parametrize(
    ("changes", "starts", "wrong"),
    [
        ({}, [Start(1, 12.0, 12.0)], {"silence_s": 0.0}),
        ({}, [Start(1, 15.0, 12.0)], {"silence_s": 3.0}),
        ({}, [Start(1, 12.5, 12.0), Start(1, 20.0, 12.0)], {"silence_s": 0.5}),
        ({}, [], {"lost": 1}),
        ({}, [Start(2, 12.0, 12.0)], {"lost": 1}),
        ({"is_doubtful": True}, [], {}),
        ({"ended_at": 11.0}, [], {}),
        ({"ended_at": 11.0}, [Start(1, 10.9, 10.9)], {}),
        ({"ended_at": 11.0}, [Start(1, 11.1, 10.9)], {"overtaken": 1}),
        ({}, [Start(1, 11.5, 11.5)], {"overtaken": 1, "silence_s": -0.5}),
        ({}, [Start(1, 9.0, 9.0)], {"lost": 1}),
        ({"is_doubtful": True}, [Start(1, 11.5, 11.5)], {}),
        ({}, [Start(1, 12.0, 12.1)], {"early": 1}),
    ],
)
def test_faults_are_found(changes, starts, wrong):
    """
    `judge` finds jobs that never start, jobs that start after an answered cancel or move, and jobs that start early.
    """
    life = Life("step", "key", 1, 7, asked_at=10.0, answered_at=10.5, due=12.0)
    for name, value in changes.items():
        setattr(life, name, value)
    expected = Counts(acknowledged=1, **{"silence_s": 0.0, **wrong})
    expected.silence_s = max(expected.silence_s, 0.0)
    (found,) = judge(["step"], Told(life), starts).values()
    assert found == expected
    assert found.is_good == (not {"lost", "overtaken", "early"} & wrong.keys())
    assert f"| step | 1 | {found.lost} | {found.overtaken} | {found.early} |" in table({"step": found})


def test_a_step_without_an_answer_is_not_good():
    """
    A step does not count as good if the caller got no answer during the step.
    """
    assert not judge(["step"], Caller(seed=0), [])["step"].is_good


def test_a_caller_changes_its_store(tmp_path):
    """
    A caller can be switched to another store during its work.

    If no process fires in that store, all jobs of the caller count as lost.
    """
    caller = Caller(seed=1)
    try:
        for step in ("one", "two"):
            caller.begin(step)
            caller.use(f"sqlite:///{tmp_path}/{step}.db")
    finally:
        caller.stop()
    found = judge(["one", "two"], caller, [])
    assert all(each.acknowledged > 0 for each in found.values())
    alive = sum(life.ended_at is None and not life.is_doubtful for life in caller.lives)
    assert sum(each.lost for each in found.values()) == alive > 0
    assert (tmp_path / "two.db").exists()
