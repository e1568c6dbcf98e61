"""
SQL that is kept in files: named queries and numbered migrations.

Each file is a sequence of `-- name: NAME` lines, each followed by one statement; comments may be anywhere.
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
    Return the statements of the `.sql` files in *package*, by name, without comments and the final semicolon.
    """
    statements: dict[str, str] = {}
    for file in files(package).iterdir():
        if file.name.endswith(".sql"):
            parts = _NAME.split(file.read_text("utf-8"))
            bodies = (_COMMENT.sub("", body).strip().removesuffix(";") for body in parts[2::2])
            statements.update(zip(parts[1::2], bodies, strict=True))
    return statements


def load_migrations(package: str) -> list[str]:
    """
    Return the scripts `migrations/0001_*.sql`, `0002_*.sql`, ... in *package*; the n-th leads to schema version n.
    """
    scripts = [entry for entry in files(package).joinpath("migrations").iterdir() if entry.name.endswith(".sql")]
    return [entry.read_text("utf-8") for entry in sorted(scripts, key=lambda entry: entry.name)]
