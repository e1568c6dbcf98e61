"""
The counter of sentence patterns.

Each pattern finds the fault for which it was written, and no fault in plain sentences.
"""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(scope="module")
def english(root):
    """
    Return the script that counts the patterns, as a module.
    """
    spec = importlib.util.spec_from_file_location("english", root / "scripts/english.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("noun_clause", "Return what is left."),
        ("question", "After which a request is made again."),
        ("question", "Args:\n    late: Whether that was so.\n"),
        ("so_many", "If the clock moved by so much."),
        ("negation", "The lane, or None if there is none."),
        ("fragment", "Let them go on."),
        ("actor", "It asks nobody."),
        ("bookish", "Conditions are heeded."),
    ],
)
def test_each_pattern_finds_its_fault(english, name, text):
    """
    A sentence with a fault is counted under the pattern for this fault, and under no other.
    """
    assert [each for each, pattern in english.PATTERNS.items() if pattern.search(text)] == [name]


@pytest.mark.parametrize("text", ["Maximum number of jobs.", "True if the timeout has passed.", "What is a wheel?"])
def test_plain_sentences_are_not_counted(english, text):
    """
    A plain sentence, or a question as a heading, matches no pattern except `noun_clause`.

    This pattern is known to match some correct sentences.
    """
    assert [each for each, pattern in english.PATTERNS.items() if pattern.search(text)] in ([], ["noun_clause"])


def test_comments_docstrings_and_pages_are_read(english):
    """
    The check reads comments, docstrings and pages, and knows the line of each text.
    """
    python = '"""\nDoc.\n"""\nA = 1  # note\n"""Constant."""\n'
    assert sorted(english.texts_of_python(python)) == [(1, "\nDoc.\n"), (4, " note"), (5, "Constant.")]
    assert list(english.texts_of_rust("fn a() {}\n/// One\n/// two.\nfn b() {}\n")) == [(2, " One\n two.\n")]
    assert list(english.texts_of_page("a\n```\ncode\n```\nb")) == [(1, "a"), (5, "b")]
