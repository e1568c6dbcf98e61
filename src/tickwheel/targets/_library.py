from __future__ import annotations

import importlib
from typing import Any

from tickwheel.errors import MissingExtraError

__all__ = ["library", "missing"]


def library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing(error, name, extra) from None


def missing(error: ImportError, name: str, extra: str) -> MissingExtraError:
    library, lacked = (each.partition(".")[0].replace("_", "-") for each in (name, error.name or ""))
    shown = library if lacked in ("", library) else f"{lacked}, which {library} needs,"
    return MissingExtraError(shown, extra)
