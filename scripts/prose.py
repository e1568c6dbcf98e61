"""
Check the English of pages, docstrings, comments and messages, with proselint and rules of the house.

    python scripts/prose.py [FILE...]

Code is not read. In a page this means code blocks and names in backticks. In a source file, only comments and strings
are read. Each finding is a line of output. The exit code is 1 if there are any findings.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from proselint.checks import __register__ as of_proselint
from proselint.registry.checks import Check, types
from proselint.registry.checks.engine import Fancy, RegexOptions

ROOT = Path(__file__).parents[1]
PLACES = (
    "*.md",
    "*.toml",
    "Makefile",
    ".ci/*",
    ".github/**/*.yml",
    "benchmarks/**/*.py",
    "crates/**/*.rs",
    "deploy/**/*",
    "docs/**/*.md",
    "docs/site/**/*.*",
    "examples/**/*.*",
    "requirements/*.in",
    "scripts/*",
    "src/**/*.*",
    "tests/**/*.*",
)
FAULTY = Path("tests/house/test_prose.py")
"""The tests of these rules, which contain faulty English on purpose."""
LISTS = ("glossary.md",)
"""Pages that list words. They need not explain a word where it comes first."""
FAMILIES = {"archaism", "malapropisms", "mondegreens", "needless_variants", "nonwords", "oxymorons", "redundancy"}
"""The checks that proselint runs. Its other checks are about typography or the subject matter."""
WRONG = "after_the_deadline"
"""A check of proselint that is not run, because it finds 'for free' in 'asks for free shards'."""


GAP = r"[\s\"]+"
"""Matches the gap between two words, which may contain the end of a line or of one of several joined strings."""
DIRECTIVE = re.compile(r"# (?:noqa: [A-Z0-9, ]+|type: ignore\[[\w, -]+\])")
"""Matches a comment that is an instruction for a tool."""


def rule(name: str, pattern: str, remedy: str, *, is_cased: bool = False) -> Check:
    """
    Return a check of the house style, which suggests *remedy* where *pattern* matches.
    """
    engine = Fancy(RegexOptions(case_insensitive=not is_cased, multi_line=True))
    return Check(types.ExistenceSimple(pattern.replace(" ", GAP)), engine, f"house.{name}", f"'{{}}': write {remedy}")


NOT_A = r"(?<!there\s)\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|fewer\b|other\b|\w+er\b)\w+"
HOUSE = (
    rule("tell", r"\b(?:tell|tells|telling|told)\b", "show, report, export, say or distinguish"),
    rule("who", r"\bwhoever\b|\b(?:these|somebody|someone|anybody|one|him|all) who\b", "'if you'"),
    rule("who", r"(?:^|[.:;,(] )Who (?!\w+ (?:is|are|was)\b)[^?\n]*?[.;,]", "'if you'", is_cased=True),
    rule("anew", r"\banew\b", "again"),
    rule("itself", r"\bby (?:itself|themselves)\b", "automatically, alone, or what does it"),
    rule("lies", r"\b(?:lie|lies|lain|lying)\b", "is, is kept, or is stored"),
    rule("stands", r"\b(?:stand|stands|stood|standing)\b", "is, is based, sustains, or survives"),
    rule("same", r"\ball the same\b", "nevertheless, or still"),
    rule("ever", r"\bas (?:ever|always)\b", "as usual, or as before"),
    rule("no", NOT_A, "'is not a'"),
    rule("back", r"\b(?:jobs?|timers?|what) that comes? back\b", "recurring"),
    rule("away", r"\b(?:store|server|database|receiver) (?:is |was |are )?away\b", "unreachable"),
)
PROSE = tuple(check for check in of_proselint if check.path.partition(".")[0] in FAMILIES and WRONG not in check.path)

TERMS = {
    "settl(?:e|es|ed|ing|er)": "acknowledg",
    "rescu(?:e|es|ed|ing|er)": "recover",
    "stag(?:e|es|ed|ing|er)": "prefetch|load stage",
    "herds?": "burst",
    "leas(?:e|es|ed)": "lock",
    "(?<!since the )epochs?": "fencing",
}
"""Tickwheel's own words, each with the usual word that a page must give as its explanation."""


def blank(text: str) -> str:
    """
    Return *text* with every character replaced by a blank, except the ends of lines.
    """
    return re.sub(r"[^\n]", " ", text)


def prose_of_page(text: str) -> str:
    """
    Return a page in which code, tags and the addresses of links are blank.

    The position of all other text stays the same.
    """
    for code in (r"^```.*?^```", r"``[^`]+``|`[^`\n]+`", r"\]\([^)\n]*\)", r"<[^>\n]+>"):
        text = re.sub(code, lambda match: blank(match[0]), text, flags=re.MULTILINE | re.DOTALL)
    return text


def prose_of_python(text: str) -> str:
    """
    Return the comments of a Python file, and its strings of several words. All other text is blank.

    The position of the comments and strings stays the same.
    """
    lines = text.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    parts, done = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds and " " in token.string:
            first, last = (begins[line - 1] + column for line, column in (token.start, token.end))
            said = DIRECTIVE.sub(lambda match: blank(match[0]), text[first:last])
            parts += [blank(text[done:first]), said]
            done = last
    for name in (r"\{[^{}\n]*\}", r"\*\w+\*", r"^ +\w+: "):
        parts = [re.sub(name, lambda match: blank(match[0]), "".join(parts), flags=re.MULTILINE)]
    return prose_of_page(parts[0])


def prose_of_source(form: re.Pattern[str], text: str) -> str:
    """
    Return the texts of several words that the groups of *form* match in a source file. All other text is blank.

    The position of these texts stays the same.
    """
    parts, done = [], 0
    for match in form.finditer(text):
        said = match[match.lastindex or 0]
        if match.lastindex and " " in said.strip():
            parts += [blank(text[done : match.start(match.lastindex)]), said]
            done = match.end()
    return prose_of_page("".join([*parts, blank(text[done:])]))


STRING = r"(\"(?:[^\"\\]|\\.)*\")"
RUST = re.compile(rf"//[/!]?(.*)|{STRING}|'(?:[^'\\]|\\.)'")
SCRIPT = re.compile(rf"(?:(?<![:\w])//|/\*)(.*)|{STRING}|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`")
DASHES = re.compile(r"--(.*)")
HASHES = re.compile(r"(?:^|\s)##?\s(.*)", re.MULTILINE)
"""
Matches comments in shell and make files. The expressions above match comments and strings in RUST, in JavaScript and
CSS (SCRIPT), and in SQL and Lua (DASHES).
"""

READERS: dict[str, Callable[[str], str]] = {
    ".md": prose_of_page,
    ".html": prose_of_page,
    ".py": prose_of_python,
    ".pyi": prose_of_python,
    ".rs": partial(prose_of_source, RUST),
    ".js": partial(prose_of_source, SCRIPT),
    ".css": partial(prose_of_source, SCRIPT),
    ".c": partial(prose_of_source, SCRIPT),
    ".pml": partial(prose_of_source, SCRIPT),
    ".sql": partial(prose_of_source, DASHES),
    ".lua": partial(prose_of_source, DASHES),
    ".in": partial(prose_of_source, HASHES),
    ".sh": partial(prose_of_source, HASHES),
    ".toml": partial(prose_of_source, HASHES),
    ".yml": prose_of_page,
    ".yaml": prose_of_page,
    ".json": prose_of_page,
    ".service": prose_of_page,
    "": partial(prose_of_source, HASHES),
}


def unexplained(text: str) -> Iterator[tuple[int, str]]:
    """
    Find terms of `TERMS` that a page does not explain.

    Yield the position of the first use of each term, with a message, unless the line explains the term.
    """
    for term, meaning in TERMS.items():
        if first := re.search(rf"\b{term}\b", text, re.IGNORECASE):
            line = text[text.rfind("\n", 0, first.start()) + 1 :].partition("\n")[0]
            if not re.search(meaning, line, re.IGNORECASE):
                yield first.start(), f"house.term: '{first[0]}': explain it by '{meaning}' where it comes first"


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """
    Yield the line and the message of each finding in a file.
    """
    text = "\n" + READERS[path.suffix](path.read_text("utf-8")) + "\n"
    found = [
        (result.span[0], f"{result.check_path}: {result.message}")
        for check in HOUSE + PROSE
        for result in check.check_with_flags(text)
    ]
    if path.suffix == ".md" and path.name not in LISTS:
        found += unexplained(text)
    for place, message in sorted(found):
        yield text.count("\n", 0, place + 1), message


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="what to read (default: the whole project)")
    files = parser.parse_args().files or sorted(
        {path for place in PLACES for path in ROOT.glob(place) if path.suffix in READERS and path.is_file()}
        - {ROOT / FAULTY}
    )
    count = 0
    for path in files:
        for line, message in findings(path):
            print(f"{path}:{line}: {' '.join(message.split())}")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
