"""
The log of a server on standard error: lines for people, or JSON documents with the same facts as members.

Events of jobs are logged at `warning` or above if they may need attention, and at `debug` if not.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

import click

from tickwheel.cli.exits import Refused, exit_code_of
from tickwheel.errors import TickwheelError
from tickwheel.jobs.checks import decode_payload
from tickwheel.observe.events import (
    CircuitClosed,
    CircuitOpened,
    Event,
    JobDied,
    JobFailed,
    LaneCleared,
    LaneFilled,
    OwnershipGained,
    OwnershipLost,
    SettleRefused,
    StoreFailed,
)
from tickwheel.observe.tracing import FIRING
from tickwheel.targets import Firing

__all__ = ["FACTS", "LEVELS", "ends_logged", "log_event", "log_firing", "set_up"]

LEVELS: Final = ("debug", "info", "warning", "error")

FACTS: Final = "_tickwheel_facts"
"""The attribute of a log record that has the facts of an event. The name is unlikely in `extra=` of other code."""
_LOG: Final = logging.getLogger("tickwheel.jobs")
_FIRED: Final = logging.getLogger("tickwheel.fired")
_LEVEL_OF: Final = {
    JobFailed: logging.WARNING,
    JobDied: logging.ERROR,
    SettleRefused: logging.WARNING,
    StoreFailed: logging.ERROR,
    OwnershipGained: logging.INFO,
    OwnershipLost: logging.WARNING,
    CircuitOpened: logging.WARNING,
    CircuitClosed: logging.INFO,
    LaneFilled: logging.WARNING,
    LaneCleared: logging.INFO,
}
_WORDS: Final = {"OwnershipGained": "took over", "OwnershipLost": "lost its right to fire"}


def set_up(level: str, *, as_json: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(
        _JsonFormatter() if as_json else _TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    _FIRED.setLevel(logging.INFO)
    if as_json:
        logging.captureWarnings(capture=True)
        sys.excepthook = lambda *error: root.critical("the process ends by an error", exc_info=error)
        threading.excepthook = _log_end_of_thread
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # clients could fill the disk with its warnings about requests


@contextmanager
def ends_logged() -> Iterator[None]:
    try:
        yield
    except (Refused, TickwheelError) as error:
        code = error.code if isinstance(error, Refused) else exit_code_of(error)
        logging.getLogger("tickwheel").critical(str(error), extra={FACTS: {"exit_code": int(code)}})
        raise click.exceptions.Exit(code) from None


def log_event(event: Event) -> None:
    is_handed_over = isinstance(event, OwnershipLost) and event.is_handed_over
    level = logging.INFO if is_handed_over else _LEVEL_OF.get(type(event), logging.DEBUG)
    if _LOG.isEnabledFor(level):
        facts = {name: value.value if isinstance(value, Enum) else value for name, value in asdict(event).items()}
        if "attempt" in facts:
            facts["fire_id"] = f"{facts['key']}/{facts['generation']}/{facts['attempt']}"
        name = "handed over its right to fire" if is_handed_over else _name_of(event)
        _LOG.log(level, name, extra={FACTS: facts})


def log_firing(firing: Firing) -> None:
    """
    Log one firing of a job whose target is `log`. The log level does not matter, because the user asked for this log.
    """
    job = firing.job
    facts = {
        "key": job.key,
        "generation": job.generation,
        "attempt": firing.attempt,
        "fire_id": firing.fire_id,
        "handler": job.handler,
        "lateness_ms": max(0.0, round(firing.lateness_ms, 3)),
        "payload": decode_payload(job.payload),
    }
    _FIRED.info("fired", extra={FACTS: facts})


def _log_end_of_thread(end: threading.ExceptHookArgs) -> None:
    error = end.exc_value or end.exc_type()
    logging.getLogger("tickwheel").error("a thread ended by an error", exc_info=error)


def _name_of(event: Event) -> str:
    name = type(event).__name__
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return _WORDS.get(name, spaced.strip())


def _facts_of(record: logging.LogRecord) -> dict[str, Any]:
    facts: dict[str, Any] | None = getattr(record, FACTS, None)
    firing = FIRING.get() if facts is None else None
    if firing is None:
        return facts or {}
    key, generation, attempt = firing
    return {"key": key, "generation": generation, "attempt": attempt, "fire_id": f"{key}/{generation}/{attempt}"}


class _TextFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  its name in the standard library
        facts = _facts_of(record)
        text = super().formatMessage(record) + "".join(f" {name}={value!r}" for name, value in facts.items())
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts_of(record),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)
