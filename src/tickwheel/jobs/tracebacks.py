"""
The traceback of an exception, as text of bounded size that any store keeps.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from tickwheel.jobs.errors import error_text, kept_text

__all__ = ["TRACEBACK_CHARS_MAX", "traceback_text"]

TRACEBACK_CHARS_MAX: Final = 4_000
"""Maximum length of a stored traceback: its end, where the error is."""
_FRAMES_MAX: Final = 30
"""Maximum number of frames per exception: the last ones."""
_CHAIN_MAX: Final = 4
_GROUP_MAX: Final = 5
_CUT: Final = "...\n"
_OURS: Final = str(Path(__file__).parents[1])
_CAUSE: Final = "\n\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


def traceback_text(error: BaseException) -> str | None:
    """
    Return the traceback of *error*, with those of its causes; None if they have no frame of the user's.

    Our own frames, which called the handler, are left out. An exception's class may be any user's: nothing that it does
    raises here. Costs some 50 us, and 130 us for 30 frames.
    """
    try:
        remote: str | None = getattr(error, "remote_traceback", None)
        text = _chain_text(error) if remote is None else remote
    except BaseException:  # noqa: BLE001  its traceback may not decide what becomes of the job
        return None
    if not text:
        return None
    if len(text) > TRACEBACK_CHARS_MAX:
        text = _CUT + text[len(_CUT) - TRACEBACK_CHARS_MAX :]
    return kept_text(text, TRACEBACK_CHARS_MAX)


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
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
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
