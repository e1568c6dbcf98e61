"""
Errors of the command line name the options in question, and with --json they are JSON documents.
"""

from __future__ import annotations

import json

import pytest

SET = ("set", "k", "--target", "log")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*SET, "--delay", "soon"), "Invalid value for '--delay': 'soon' is not a duration"),
        ((*SET, "--cron", "* *"), "--cron is '* *': it has 2 fields"),
        ((*SET, "--every", "0"), "--every is 0.0: pass seconds"),
        ((*SET, "--every", "1s", "--tz", "Nope/X"), "--tz is 'Nope/X': pass an IANA zone"),
        ((*SET, "--delay", "1s", "--attempts", "0"), "--attempts is 0: pass an integer"),
        ((*SET, "--every", "1h", "--time", "25:00"), "--every is 3600.0: with --time it is whole days"),
        (("list", "--field", "x"), "--field is 'x': pass NAME=VALUE, as 'number=17'"),
        (("list", "--nope"), "No such option '--nope'."),
    ],
)
def test_options_are_named(run, arguments, said):
    """
    An error names the option, even if the value is refused only by a later check.
    """
    run(*SET, "--delay", "1h")
    answer = run(*arguments)
    assert answer.returncode == 2
    assert said in answer.stderr
    answer = run(*arguments, "--json")
    assert (answer.returncode, answer.stdout) == (2, "")
    document = json.loads(answer.stderr)
    assert document["error"].startswith(said)
    assert (document["code"], document["meaning"]) == (2, "the command, or a value in it, is wrong")


def test_refusals_as_json(run):
    """
    With --json, the error for a missing job is a document that contains the exit code.
    """
    run(*SET, "--delay", "1h")
    answer = run("get", "nobody", "--json")
    document = json.loads(answer.stderr)
    assert document["error"].startswith("no job has the key 'nobody'")
    assert (answer.returncode, document["code"], document["meaning"]) == (3, 3, "there is no such job")
