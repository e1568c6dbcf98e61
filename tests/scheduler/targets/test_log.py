"""
The lines that a log target prints.
"""

from __future__ import annotations

from tickwheel.scheduler import Firing, Job
from tickwheel.targets.log import LogTarget, line_of


def firing(key="tea", handler="", payload=b'{"cups":2}'):
    """
    Return a firing that is a third of a millisecond late.
    """
    return Firing(Job(key, 3, 1_900_000_000_000, payload, "log", handler), 1, 1_900_000_000_000.3)


def test_line():
    """
    The line shows the due time, the key, the handler, the attempt, the lateness and the payload.
    """
    assert line_of(firing(handler="kitchen")) == (
        '2030-03-17T17:46:40.000Z fired "tea" for "kitchen", attempt 1, 0.3 ms late: {"cups":2}'
    )


def test_no_key_breaks_the_line():
    """
    Control characters and quotes in a key are escaped, so that one firing is one line.
    """
    line = line_of(firing(key='a\n"b"\x1b[31m\u2028ä'))
    assert 'fired "a\\n\\"b\\"\\x1b[31m\\u2028ä"' in line
    assert line.isprintable()


def test_printed(capsys):
    """
    The call prints the line immediately.
    """
    LogTarget().resolve("").function(firing())
    assert capsys.readouterr().out == line_of(firing()) + "\n"
