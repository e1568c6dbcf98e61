"""
The check of the English finds faults and ignores code.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("proselint", reason="proselint is not installed: it is in requirements/dev.txt, but not for 3.15")

FAULTS = {
    "tell": "`stats()` tells how many are pending.",
    "who": "Whoever opens the store owns it.",
    "anew": "The page is drawn anew.",
    "itself": "The cache expires by itself.",
    "lies": "The timer lies in a slot.",
    "stands": "The rule stands in the code.",
    "same": "It fires all the same.",
    "ever": "It is settled (acknowledged) as ever.",
    "no": "It is no list.",
    "back": "Jobs that come back are listed.",
    "away": "The store is away.",
    "term": "A herd is seen before it fires.",
}


def check(root, tmp_path, name, text):
    """
    Return the exit code for a file of *text*, and the findings by line and rule.
    """
    file = tmp_path / name
    file.write_text(text, "utf-8")
    command = [sys.executable, "-P", str(root / "scripts" / "prose.py"), str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.stderr == ""
    return answer.returncode, [line.removeprefix(f"{file}:").split(":")[:2] for line in answer.stdout.splitlines()]


def test_each_rule_finds_its_fault(root, tmp_path):
    """
    Each fault of a page is reported with its line and the name of its rule.
    """
    code, found = check(root, tmp_path, "page.md", "\n".join(FAULTS.values()) + "\nIt waits for ever.\n")
    expected = [[str(line), f" house.{name}"] for line, name in enumerate(FAULTS, 1)]
    assert (code, found) == (1, [*expected, [str(len(FAULTS) + 1), " archaism"]])


SOURCES = {
    "module.py": '"""\nIt was told.\n"""\n\ntold = ["told"]  # set anew  # noqa: E501\nerror(f"{told!r} is no list")\n',
    "module.rs": '//! Doc.\n/// It was told.\n\n\nlet anew = "anew"; // set anew: \'"\'\nErr("it is no list")\n',
    "page.js": "// Doc.\n/* It was told. */\n\n\nask('anew', \"http://anew\"); // set anew\nerror(`it is no list`);\n",
    "query.sql": "-- Doc.\n-- It was told.\n\n\nSELECT 'anew' -- set anew\n-- It is no list.\n",
    "model.pml": "/* Doc. */\n/* It was told. */\n\n\nbool anew; /* set anew */\n/* It is no list. */\n",
    "board.json": '{"title":\n"It was told.",\n\n\n"description": "set anew",\n"more": "it is no list"}\n',
    "Makefile": "# Doc.\n# It was told.\n\n\nanew: ## set anew\n# It is no list.\n",
}


@pytest.mark.parametrize("name", SOURCES)
def test_comments_and_strings_are_read(root, tmp_path, name):
    """
    The check reads the comments, docstrings and messages in code of each language, including formatted messages.

    It does not read names and single words.
    """
    code, found = check(root, tmp_path, name, SOURCES[name])
    assert (code, found) == (1, [["2", " house.tell"], ["5", " house.anew"], ["6", " house.no"]])


def test_a_rule_spans_lines(root, tmp_path):
    """
    A rule finds a phrase that continues in the next line, or in the next string of the same message.
    """
    text = '"""\nReturn it all the\nsame.\n"""\n\nraise ValueError("it is all the " "same to us")\n'
    code, found = check(root, tmp_path, "module.py", text)
    assert (code, found) == (1, [["2", " house.same"], ["6", " house.same"]])


def test_code_is_not_read(root, tmp_path):
    """
    The check ignores code blocks, names in backticks and the addresses of links.

    It finds no fault in plain English.
    """
    text = "There is no list, and `tell` is not one; [it](anew.md) is no longer one.\n\n```\ntell anew\n```\n"
    assert check(root, tmp_path, "page.md", text) == (0, [])


def test_a_word_of_our_own_is_explained_once(root, tmp_path):
    """
    The check accepts a word of our own if the line of its first use also has the usual word.
    """
    text = "A herd, or burst, of jobs.\nThe herd fires.\nSeconds since the epoch.\n"
    assert check(root, tmp_path, "page.md", text) == (0, [])
