"""
SQL in files: named queries and numbered migrations.

In a file of queries, each statement follows a line `-- name: NAME`. Statements use macros for the columns of a job,
which are expanded when a file is read:

    macro                       expansion
    @columns                    key, generation, due_at, ... (`columns.ALL`)
    @columns(j)                 j.key, j.generation, j.due_at, ...
    @columns(j, due_at = k.at)  another expression in place of a column
    @columns(-key, -due_at)     without these columns
    @values                     a placeholder for each column
    @guessed                    an error unless the number of rows equals the parameter, the guessed number
    @set(n)                     generation = n.generation, due_at = n.due_at, ... for all columns but the key

A statement that names only some of the columns states the reason in a line `-- columns: REASON`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from tickwheel.jobs.columns import ALL, NAMES, Column
from tickwheel.jobs.errors import StoreFormatError
from tickwheel.stores._unreleased import unreleased

__all__ = ["checksum_of", "expand", "load_migrations", "load_queries", "version_of"]

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MACRO: Final = re.compile(r"@(?P<name>\w+)(?:\((?P<arguments>[^()]*)\))?")
_GUESSED: Final = (
    "(CASE WHEN count(*) = %s::bigint THEN '1' ELSE 'a guess of tickwheel was wrong, and it tries again' END)::integer"
)
_COMMENT: Final = re.compile(r"^\s*--.*$\n?", re.MULTILINE)


def load_queries(package: str, placeholder: Callable[[Column], str]) -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in files(package).iterdir():
        if file.name.endswith(".sql"):
            parts = _NAME.split(file.read_text("utf-8"))
            bodies = (expand(_COMMENT.sub("", body), placeholder).strip().removesuffix(";") for body in parts[2::2])
            statements.update(zip(parts[1::2], bodies, strict=True))
    return statements


def expand(statement: str, placeholder: Callable[[Column], str]) -> str:
    def expanded(macro: re.Match[str]) -> str:
        arguments = [argument.strip() for argument in (macro["arguments"] or "").split(",") if argument.strip()]
        match macro["name"], arguments:
            case "columns", _:
                return _listed(arguments)
            case "values", []:
                return ", ".join(map(placeholder, ALL))
            case "guessed", []:
                return _GUESSED
            case "set", [alias]:
                return ", ".join(f"{name} = {alias}.{name}" for name in NAMES if name != "key")
        what = f"there is no macro {macro[0]!r}: see stores/_sql.py"
        raise ValueError(what)

    return _MACRO.sub(expanded, statement)


def _listed(arguments: Sequence[str]) -> str:
    prefix, values, left_out = "", dict[str, str](), set[str]()
    for argument in arguments:
        name, equals, value = (part.strip() for part in argument.partition("="))
        if equals:
            values[name] = value
        elif argument.startswith("-"):
            left_out.add(argument[1:])
        else:
            prefix = f"{argument}."
    if unknown := {*values, *left_out} - {*NAMES}:
        what = f"@columns names {', '.join(sorted(unknown))}: the columns are {', '.join(NAMES)}"
        raise ValueError(what)
    return ", ".join(values.get(name, prefix + name) for name in NAMES if name not in left_out)


def load_migrations(package: str) -> list[str]:
    scripts = [entry for entry in files(package).joinpath("migrations").iterdir() if entry.name.endswith(".sql")]
    return [entry.read_text("utf-8") for entry in sorted(scripts, key=lambda entry: entry.name)]


def checksum_of(migrations: Sequence[str]) -> str:
    words = " ".join(_COMMENT.sub("", script) for script in migrations).split()
    return sha256(" ".join(words).encode()).hexdigest()[:16]


def version_of(row: Sequence[Any] | None, migrations: Sequence[str], url: str, *, has_jobs: bool) -> int:
    """
    Return the schema version of a store: 0 for a new one, and at most the number of *migrations*.

    *row* has the stored version and checksum; a schema from before the first release has no checksum. Raises a
    `StoreFormatError` if the schema is newer or unreleased, or if *has_jobs* is True but the version is missing.
    """
    version, checksum, *_ = (*row, None, None) if row else (0, None)
    if version == 0:
        if not has_jobs:
            return 0
        what = f"{url} has tables of tickwheel's, and the one with their version was emptied"
        remedy = "drop its tables and sequences that are named tickwheel_*, or restore a backup, and start again"
        raise StoreFormatError(what, remedy)
    if checksum is None:
        found = f"schema version {version!r}, without a checksum"
    elif not isinstance(version, int) or not 0 < version <= len(migrations):
        what = f"{url} has schema version {version!r}, and this tickwheel knows 1 to {len(migrations)}"
        raise StoreFormatError(what, "upgrade tickwheel; the store was left as it is")
    elif checksum == (expected := checksum_of(migrations[:version])):
        return version
    else:
        found = f"schema version {version}, checksum {checksum!r} where this one has {expected!r}"
    raise unreleased(url, found)
