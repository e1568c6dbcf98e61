"""
Joins the page's forty JavaScript modules into one file, because separate requests would cost eight round trips.

Each module becomes a function that returns its exports. In the file, the modules that it imports come before it. A
module that is imported at run time, by `import("./name.js")`, stays a separate file. The code works on lines and does
not parse JavaScript, because all modules are formatted alike. An import or export of any other form is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "bundle"]

ROOT: Final = "main.js"
_IMPORT: Final = re.compile(r'import (?:\{(\w+(?:, \w+)*)\} from )?"\./(\w+)\.js"')
_LATER: Final = re.compile(r'\bimport\("\./(\w+\.js)"\)')
_EXPORT: Final = re.compile(r"export ((?:async )?function\*? ?|class |const )(\w+)")


@cache
def bundle(folder: Path) -> dict[str, bytes]:
    """
    Return the contents of `main.js` and of the modules that it imports at run time, by file name.

    A ValueError is raised if modules import each other, or if an import or export has an unknown form.
    """
    sources = {path.name: path.read_text("utf-8") for path in folder.glob("*.js")}
    first = list(_in_order(ROOT, sources))
    files = {ROOT: "\n".join(["export const $ = {}", *_wrapped(first, sources)])}
    for name in {later for source in sources.values() for later in _LATER.findall(source)}:
        rest = [each for each in _in_order(name, sources) if each not in first]
        lines, exports = _body(sources[name])
        parts = [f'import {{$}} from "./{ROOT}"', *_wrapped(rest[:-1], sources), *lines, f"export {_names(exports)}"]
        files[name] = "\n".join(parts)
    return {name: text.encode() for name, text in files.items()}


def _in_order(name: str, sources: dict[str, str], above: tuple[str, ...] = ()) -> Iterator[str]:
    if name in above:
        message = f"modules import each other: {', '.join((*above, name))}"
        raise ValueError(message)
    found = dict.fromkeys(
        each
        for _, imported in _IMPORT.findall(sources[name])
        for each in _in_order(f"{imported}.js", sources, (*above, name))
    )
    yield from found
    yield name


def _wrapped(names: Iterable[str], sources: dict[str, str]) -> Iterator[str]:
    for name in names:
        lines, exports = _body(sources[name])
        short = name.removesuffix(".js")
        yield "\n".join([f"$.{short} ??= (() => {{", *lines, f"return {_names(exports)}", "})()"])


def _body(source: str) -> tuple[list[str], list[str]]:
    lines, exports = [], []
    for line in map(str.strip, source.split("\n")):
        if line.startswith("import "):
            names, imported = _match(_IMPORT, line).groups()
            lines += [f"const {{{names}}} = $.{imported}"] if names else []
        elif line.startswith("export "):
            exported = _match(_EXPORT, line)[2]
            exports.append(exported)
            lines.append(line.removeprefix("export "))
        elif line and not line.startswith("//"):
            lines.append(line)
    return lines, exports


def _match(pattern: re.Pattern[str], line: str) -> re.Match[str]:
    found = pattern.match(line)
    if found is None or (pattern is _IMPORT and found.end() != len(line)):
        message = f"no such line can be joined: {line}"
        raise ValueError(message)
    return found


def _names(exports: Iterable[str]) -> str:
    return f"{{{', '.join(exports)}}}"
