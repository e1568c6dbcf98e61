from __future__ import annotations

import json
import os
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click
from click.core import ParameterSource

from tickwheel.calendar import Step, duration
from tickwheel.calendar.zone import check_zone, zone_of
from tickwheel.errors import RecurrenceError

__all__ = [
    "DURATION",
    "EVERY",
    "JSON",
    "MOMENT",
    "DurationRange",
    "OutputPath",
    "check_zone_is_used",
    "epoch_seconds",
]

_CENTURY_S: Final = 36_525 * 86_400
_COMPACT: Final = re.compile(r"((?:19|2\d)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?:\d{4}|\d{6})?")
"""A date from 1900 to 2999, with an optional time, written in digits only."""


class _Duration(click.ParamType[float]):
    """
    Seconds, numbers with units, or ISO 8601: `90`, `1.5s`, `10m`, `2h30m`, `7d`, `PT30M`.
    """

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return duration.from_text(value)
        except ValueError as error:
            self.fail(f"{shortened(value)} is not a duration: write seconds, or {error}", param, ctx)


class DurationRange(_Duration):
    def __init__(self, least: float, most: float = _CENTURY_S, *, is_least_open: bool = False) -> None:
        self._least, self._most, self._is_least_open = least, most, is_least_open

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = super().convert(value, param, ctx)
        if seconds > self._most:
            self.fail(f"{shortened(str(value))} is too long: write at most {self._most:.12g} s", param, ctx)
        if not seconds >= self._least or (self._is_least_open and seconds == self._least):  # also refuses NaN
            least = f"more than {self._least:g} s" if self._is_least_open else f"at least {self._least:g} s"
            self.fail(f"{shortened(str(value))} is too short: write {least}", param, ctx)
        return seconds


class _Every(_Duration):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and Step.of(value) is not None:
            return value
        return super().convert(value, param, ctx)


class _Moment(click.ParamType[datetime | float]):
    """
    An ISO 8601 time or seconds since the epoch. A time without an offset is in the zone of `--tz`, or in local time.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | float:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        try:
            seconds = epoch_seconds(value)
        except ValueError as error:
            self.fail(f"{value!r} may be a date, or epoch seconds: {error}", param, ctx)
        if seconds is not None:
            return seconds
        try:
            moment = datetime.fromisoformat(value)
            zone = None if ctx is None or moment.tzinfo is not None else _given_zone(ctx)
            return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)
        except RecurrenceError as error:
            self.fail(str(error), param, ctx)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is not a time: write local time as in 2030-01-01T09:00, add an offset, or write "
                "epoch seconds",
                param,
                ctx,
            )


class _Json(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = sys.stdin.read() if value == "-" else value
        try:
            return json.loads(text)
        except RecursionError:
            self.fail("the payload is nested too deeply: flatten it", param, ctx)
        except ValueError as error:
            self.fail(f"{shortened(text)} is not JSON ({error}): quote text twice, as in '\"text\"'", param, ctx)


class OutputPath(click.Path):
    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = path.absolute().parent
        if not (os.access(path, os.W_OK) if path.exists() else os.access(folder, os.W_OK | os.X_OK)):
            self.fail(f"{str(path)!r} cannot be written: name a file in a folder that is there, and yours", param, ctx)
        return path


def _given_zone(ctx: click.Context) -> ZoneInfo | None:
    if ctx.get_parameter_source("tz") in {None, ParameterSource.DEFAULT}:
        return None
    return zone_of(check_zone(ctx.params["tz"]))


def check_zone_is_used(ctx: click.Context, *moments: datetime | float | None) -> None:
    zone = _given_zone(ctx)
    if zone is not None and not any(isinstance(each, datetime) and each.tzinfo is zone for each in moments):
        tz = ctx.params["tz"]
        message = f"--tz {tz} is not the zone of anything here: leave it out, or give a time without an offset"
        raise click.UsageError(message)


def epoch_seconds(text: str) -> float | None:
    """
    Parse *text* as seconds since the epoch, or return None. A text that may mean a date raises a ValueError.
    """
    if match := _COMPACT.fullmatch(text):
        message = f"write {'-'.join(match.groups())} for the date, or {text}.0 for seconds"
        raise ValueError(message)
    try:
        return float(text)
    except ValueError:
        return None


def shortened(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."  # noqa: PLR2004  fits a line


DURATION: Final = _Duration()
EVERY: Final = _Every()
MOMENT: Final = _Moment()
JSON: Final = _Json()
