"""
SQL that is kept in files: named queries and numbered migrations.

A file of queries is a sequence of `-- name: NAME` lines, each followed by one statement; comments may be anywhere.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

__all__ = ["load_migrations", "load_queries"]

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*--.*$\n?", re.MULTILINE)


def load_queries(package: str) -> dict[str, str]:
    """
    Return the statements of `queries.sql` in *package*, by name, without comments and the final semicolon.
    """
    parts = _NAME.split(files(package).joinpath("queries.sql").read_text("utf-8"))
    return {
        name: _COMMENT.sub("", body).strip().removesuffix(";")
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def load_migrations(package: str) -> list[str]:
    """
    Return the scripts `migrations/0001_*.sql`, `0002_*.sql`, ... in *package*; the n-th leads to schema version n.
    """
    scripts = [entry for entry in files(package).joinpath("migrations").iterdir() if entry.name.endswith(".sql")]
    return [entry.read_text("utf-8") for entry in sorted(scripts, key=lambda entry: entry.name)]
