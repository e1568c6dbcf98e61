"""
Count sentence patterns that stop a native reader, per package. The counts are in a file and may only fall.

    python scripts/english.py            fail if any count is larger than in scripts/english.txt
    python scripts/english.py --write    write the present counts
    python scripts/english.py --list so_many src/tickwheel/engine

`scripts/prose.py` reads words. This script reads the syntax around them: docstrings, documented constants, comments and
pages. A count includes false alarms, so a low count is not a proof of good English.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTS = ROOT / "scripts/english.txt"
PLACES = (
    "src/**/*.py",
    "crates/**/*.rs",
    "tests/**/*.py",
    "benchmarks/**/*.py",
    "scripts/*.py",
    "docs/**/*.md",
    "*.md",
)
PREPOSITION = r"(?:Of|For|By|In|After|With|Over|Into|Up to)"
QUESTION = rf"(?:How|What|Whether|Which|Where|When|Why|Who|{PREPOSITION} (?:how|what|which|where))\b"

PATTERNS = {
    "noun_clause": re.compile(
        r"\b(?:what|whatever) (?:is|are|was|were|has|had|comes?|came|becomes?|became|it|they|an?|the|others?|this|there"
        r"|only|waits?|runs?|follows?)\b"
    ),
    "question": re.compile(rf"\A\s*{QUESTION}[^?\n]*$|^\s+\*?\*?\w+: {QUESTION}", re.MULTILINE),
    "so_many": re.compile(r"\b[Ss]o (?:many|much|long|often|far)\b(?! as\b)"),
    "negation": re.compile(r"\b(?:is|are|was|were|names?) none\b|\bthat there (?:is|are) not\b"),
    "fragment": re.compile(
        r"\A\s*(?:Keep it|Do (?:that|it|so)|Let (?:it|them|others|go)|Go on|See there|The same)\b|^\s*See there\."
    ),
    "actor": re.compile(r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b"),
    "bookish": re.compile(
        r"\b(?:heed(?:s|ed)?|lets? go of|comes? of|came of|becomes? of|became of|take notice|turns? away|for want of"
        r"|thereof|whereof|herein|nevertheless)\b"
    ),
}


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """
    Yield the line and the text of each docstring, documented constant and comment.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.removeprefix("#")


def texts_of_rust(source: str) -> Iterator[tuple[int, str]]:
    """
    Yield the first line and the text of each block of consecutive comment lines.
    """
    for found in re.finditer(r"(?:^[ \t]*//[/!]?[^\n]*\n)+", source, re.MULTILINE):
        yield source.count("\n", 0, found.start()) + 1, re.sub(r"(?m)^[ \t]*//[/!]?", "", found[0])


def texts_of_page(source: str) -> Iterator[tuple[int, str]]:
    """
    Yield each line of a page that is not code.
    """
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        is_fence = line.startswith("```")
        is_code ^= is_fence
        if not is_code and not is_fence:
            yield number, line


READERS = {".py": texts_of_python, ".rs": texts_of_rust, ".md": texts_of_page}


def package_of(path: Path) -> str:
    """
    Return the folder for which the patterns in a file are counted.

    This is the top folder of the repository that contains the file. For `src` and `crates` it is the folder two levels
    further down, such as `src/tickwheel/engine`.
    """
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[: 3 if parts[:1] in {("src",), ("crates",)} else 1]) or "."


def findings() -> Iterator[tuple[str, str, Path, int]]:
    """
    Yield the package, pattern, file and line of each place where a pattern matches.
    """
    for path in sorted({path for place in PLACES for path in ROOT.glob(place)}):
        for line, text in READERS[path.suffix](path.read_text("utf-8")):
            for name, pattern in PATTERNS.items():
                for found in pattern.finditer(text):
                    yield package_of(path), name, path, line + text.count("\n", 0, found.start())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the counts of now")
    parser.add_argument("--list", nargs=2, metavar=("PATTERN", "FOLDER"), help="print where a pattern is found")
    options = parser.parse_args()
    found = list(findings())
    if options.list:
        wanted, folder = options.list
        for _, name, path, line in found:
            if name == wanted and path.is_relative_to(ROOT / folder):
                print(f"{path.relative_to(ROOT)}:{line}")
        return 0
    counts = Counter((package, name) for package, name, _, _ in found)
    if options.write:
        rows = (f"{package} {name} {count}\n" for (package, name), count in sorted(counts.items()))
        COUNTS.write_text("".join(rows), "utf-8")
        return 0
    rows = (line.split() for line in COUNTS.read_text("utf-8").splitlines())
    allowed = {(package, name): int(count) for package, name, count in rows}
    worse = {each: count for each, count in counts.items() if count > allowed.get(each, 0)}
    for (package, name), count in sorted(worse.items()):
        print(f"{package}: {name}: {count}, at most {allowed.get((package, name), 0)}: see --list {name} {package}")
    if not worse and counts.total() < sum(allowed.values()):
        print("fewer than before: --write keeps it so")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
