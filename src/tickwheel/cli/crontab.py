r"""
Reads a crontab line by line into jobs to set, like Debian's cron and cronie.

* `NAME = value`, where either may be quoted, is a variable of the commands that follow. `CRON_TZ` is not a variable of
  the commands, but the zone of the lines that follow; if it is empty, the default zone applies again. `TZ` is a
  variable of the commands.
* A line has five fields or an alias, and then a command. If the file has a column for users, the user precedes the
  command.
* In a command, the first `%` begins the standard input, and each further `%` is a line end; `\%` is a per cent sign.

No shell is run: command, standard input and variables become the payload of a job.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tickwheel.calendar import Cron
from tickwheel.errors import RecurrenceError

__all__ = ["KEY", "BadLine", "CrontabLine", "Remark", "keyed", "parse"]

KEY: Final = re.compile(r"[\w.-]{1,40}-[0-9a-f]{8}(-\d+)?")
"""Pattern of the part of a key that follows the prefix."""

_ASSIGNMENT: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s="']+)\s*=\s*(.*)""", re.DOTALL)
_ALONE_WITH_STEP: Final = re.compile(r"(?:^|,)([^*/,\s-]+)/\d+")
_LIKE_A_FIELD: Final = re.compile(r"[\d*][\d*,/-]*")
_PERCENT: Final = re.compile(r"\\(.)|%", re.DOTALL)
_ALSO_COMMANDS: Final = frozenset({"git", "mail", "man", "sync"})
"""Commands that are also account names. A line that begins with one of them has no user column."""


@dataclass(frozen=True, slots=True)
class CrontabLine:
    """
    One job of a crontab.

    *text* is the whole command, and identifies the job at the next import. *command* and *stdin* are its parts. *user*
    is the account, if the file has accounts. *env* has the variables that precede the line.
    """

    line: int
    cron: str
    tz: str
    text: str
    command: str
    stdin: str | None = None
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = {"command": self.command}
        if self.stdin is not None:
            found["stdin"] = self.stdin
        if self.user is not None:
            found["user"] = self.user
        if self.env:
            found["env"] = dict(self.env)
        return found


@dataclass(frozen=True, slots=True)
class BadLine:
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """
    A remark about a valid line that may surprise its author. The line is not imported if *is_left_out*.
    """

    line: int
    text: str
    is_left_out: bool = False


def parse(
    lines: Iterable[str], *, has_user: bool, tz: str, has_seconds: bool = False
) -> Iterator[CrontabLine | BadLine | Remark]:
    """
    Read the *lines* of a crontab.

    If *has_user*, an account precedes each command, as in the system's crontab. *tz* is the zone of lines without a
    preceding `CRON_TZ`. If *has_seconds*, each line begins with a field of seconds, which cron does not have.
    """
    zone, env = tz, dict[str, str]()
    for number, text in enumerate(lines, 1):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        if (assignment := _ASSIGNMENT.fullmatch(line)) is not None:
            name, value = _unquoted(assignment[1]), _unquoted(assignment[2].rstrip())
            if name == "CRON_TZ":
                zone = value or tz
                continue
            env[name] = value
            if name == "TZ":
                remark = "TZ is the zone of the commands, not of their instants: write CRON_TZ, or pass --tz"
                yield Remark(number, f"{remark} {value}")
            continue
        if line.split(None, 1)[0] == "@reboot":
            remark = "@reboot has no instant: call the command where your program starts"
            yield Remark(number, remark, is_left_out=True)
            continue
        try:
            yield _entry(number, line, zone, env, has_user=has_user, count=5 + has_seconds)
        except (RecurrenceError, _BadLineError) as error:
            yield BadLine(number, str(error))


def keyed(entries: Iterable[CrontabLine], prefix: str) -> Iterator[tuple[str, CrontabLine]]:
    """
    Yield each entry with its key: *prefix*, the name of its program, and a hash of its command.

    So a job keeps its key when other lines are added, or when the time fields of its line change. The key of a second
    line with the same command ends in `-2`, and so on.
    """
    counts: dict[str, int] = {}
    for entry in entries:
        whole = entry.text if entry.user is None else f"{entry.user} {entry.text}"
        words = entry.command.split()
        name = re.sub(r"[^\w.-]+", "_", words[0].rpartition("/")[2])[:40] if words else ""
        key = f"{name or 'command'}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        counts[key] = counts.get(key, 0) + 1
        yield prefix + (key if counts[key] == 1 else f"{key}-{counts[key]}"), entry


class _BadLineError(Exception): ...


def _entry(number: int, line: str, tz: str, env: Mapping[str, str], *, has_user: bool, count: int) -> CrontabLine:
    count = 1 if line.startswith("@") else count
    words = line.split(None, count + has_user)
    cron = " ".join(words[:count])
    if not has_user and len(words) > count:
        _check_command(words[count], has_fields=count > 1)
    Cron.parse(cron, tz)
    if (alone := _ALONE_WITH_STEP.search(" ".join(words[:count]).replace(" ", ","))) is not None and count > 1:
        term, start = alone[0].strip(","), alone[1]
        message = f"cron ignores the step of {term!r}, as {start!r} is not a range: write {start}, or a range"
        raise _BadLineError(message)
    rest = words[count:]
    user = rest.pop(0) if has_user and rest else None
    if not rest:
        after = repr(cron) if user is None else f"{cron!r} and the user {user!r}"
        message = f"there is no command after {after}: write one"
        raise _BadLineError(message)
    text = rest[0]
    command, stdin = _divided(text)
    return CrontabLine(number, cron, tz, text, command, stdin, user, dict(env))


def _check_command(text: str, *, has_fields: bool) -> None:
    words = text.split(None, 2)
    if has_fields and _LIKE_A_FIELD.fullmatch(words[0]):
        message = f"the command begins with {words[0]!r}, which looks like a field: pass --seconds for six fields"
        raise _BadLineError(message)
    if len(words) > 1 and not words[1].startswith("-") and _is_account(words[0]):
        message = f"the command begins with {words[0]!r}, which is an account: pass --system if the lines have users"
        raise _BadLineError(message)


def _is_account(word: str) -> bool:
    if word == "root":
        return True
    if word in _ALSO_COMMANDS or "/" in word or shutil.which(word) is not None:
        return False
    try:
        import pwd  # noqa: PLC0415  Windows has none

        pwd.getpwnam(word)
    except (ImportError, KeyError, ValueError):
        return False
    return True


def _divided(text: str) -> tuple[str, str | None]:
    parts, start = [""], 0
    for found in _PERCENT.finditer(text):
        parts[-1] += text[start : found.start()]
        start = found.end()
        if found[0] == "%":
            parts.append("")
        else:
            parts[-1] += "%" if found[1] == "%" else found[0]
    parts[-1] += text[start:]
    command, *lines = parts
    if not lines:
        return command, None
    stdin = "\n".join(lines)
    return command, stdin if stdin.endswith("\n") else f"{stdin}\n"


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    return text[1:-1] if is_quoted else text
