from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

from tickwheel.jobs.errors import error_text, kept_text

__all__ = ["TRACEBACK_CHARS_MAX", "place_of", "traceback_text"]

TRACEBACK_CHARS_MAX: Final = 4_000
"""Maximum length of a stored traceback. The start of a longer traceback is cut."""
_FRAMES_MAX: Final = 30
"""Maximum number of frames per exception. If there are more, only the last frames are stored."""
_CHAIN_MAX: Final = 4
_GROUP_MAX: Final = 5
_PLACE_CHARS_MAX: Final = 200
_CUT: Final = "...\n"
_OURS: Final = str(Path(__file__).parents[1])
_STDLIB: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_PACKAGES: Final = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_CAUSE: Final = "\n\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


def traceback_text(error: BaseException) -> str | None:
    """
    Return the traceback of *error* and its causes, without tickwheel's frames; None if no frame is in the user's code.

    An exception that a method of *error* raises here is suppressed. Costs about 50 us.
    """
    try:
        remote: str | None = getattr(error, "remote_traceback", None)
        text = _chain_text(error) if remote is None else remote
    except BaseException:  # noqa: BLE001  a bad traceback must not decide how the job ends
        return None
    if not text:
        return None
    if len(text) > TRACEBACK_CHARS_MAX:
        text = _CUT + text[len(_CUT) - TRACEBACK_CHARS_MAX :]
    return kept_text(text, TRACEBACK_CHARS_MAX)


def place_of(error: BaseException) -> str | None:
    """
    Return the innermost function of the user's code in the traceback of *error*, as `module.function+line`.

    The line is counted from the function's first line, so that it does not depend on the rest of the file. The user's
    code is the top-level package of the handler, and any module outside the standard library and the installed
    packages. An exception group is represented by its first exception that is not a group. The result is None if the
    traceback has no frame of the user's code, or cannot be read.
    """
    try:
        remote: str | None = getattr(error, "remote_place", None)
        return kept_text(remote or _place_of(error) or "", _PLACE_CHARS_MAX) or None
    except BaseException:  # noqa: BLE001  an exception's class may be any user's
        return None


def _place_of(error: BaseException) -> str | None:
    if isinstance(error, BaseExceptionGroup) and (inner := _place_of(error.exceptions[0])) is not None:
        return inner
    home, found = None, None
    trace = _users_part(error)
    while trace is not None:
        package = _module_of(trace).partition(".")[0]
        home = home or package
        if package == home or not _is_installed(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    if found is None:
        return None
    code = found.tb_frame.f_code
    line = 0 if found.tb_lineno is None else found.tb_lineno - code.co_firstlineno
    return f"{_module_of(found)}.{code.co_qualname}+{line}"


def _module_of(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__"))


def _is_installed(filename: str) -> bool:
    return filename.startswith(("<frozen", *_STDLIB)) or any(name in filename for name in _PACKAGES)


def _users_part(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _chain_text(error: BaseException) -> str:
    text, has_frames = "", False
    each: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        assert each is not None
        frames = _frames_text(each)
        has_frames = has_frames or bool(frames)
        text = frames + _lines_of(each) + text
        before, link = (each.__cause__, _CAUSE) if each.__cause__ is not None else (each.__context__, _CONTEXT)
        if before is None or (link is _CONTEXT and each.__suppress_context__):
            break
        text, each = link + text, before
    return text.removeprefix(_CAUSE).removeprefix(_CONTEXT) if has_frames else ""


def _frames_text(error: BaseException) -> str:
    trace = _users_part(error)
    if trace is None:
        return ""
    frames = traceback.StackSummary.extract(traceback.walk_tb(trace), limit=-_FRAMES_MAX)
    return "Traceback (most recent call last):\n" + "".join(frames.format())


def _lines_of(error: BaseException) -> str:
    lines = [error_text(error)]
    if isinstance(error, BaseExceptionGroup):
        parts = error.exceptions
        lines += [f"  | {error_text(part)}" for part in parts[:_GROUP_MAX]]
        if len(parts) > _GROUP_MAX:
            lines.append(f"  | and {len(parts) - _GROUP_MAX} more")
    return "\n".join(lines)
