"""
Collects the pages of the documentation site and builds it, with warnings as errors.

    python scripts/docs_site.py [--out build/site] [--serve]

The pages are the files in docs/, some files of the project's root, a page for each public module, and pages that other
scripts make from the code. Nothing is fetched during the build. Each version has its own folder in the site, and the
folders of other versions stay. The folder with all versions is published, and each page links to its other versions.
"""

from __future__ import annotations

import argparse
import ast
import enum
import functools
import http.server
import importlib
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import tickwheel

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FROM_ROOT = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
WRITTEN = ("api", "metrics", "reference")
"""Pages that a script of the same name prints."""
SOURCES = "sources.json"
"""A file with the folder of each page in the repository, from which `conf.py` makes the edit links of the site."""
LINK = re.compile(r"\]\((?:\.\./)+([\w./-]+)")
JOBS = "errors|firing_record|incidents|model|recurrence|rule_text"
"""The modules of the package `jobs` that users import, as a part of a regular expression."""
INSIDE = re.compile(
    rf"tickwheel\.(cli|(lab|service)\.|(client|engine|host)\b|jobs\.(?!({JOBS})$)|integrations\.django\.apps)"
)
"""Matches modules that users do not import: commands, and inner modules of the lab, the service and the scheduler."""
FORWARD = (
    '<!doctype html><meta charset="utf-8"><title>tickwheel</title><meta http-equiv="refresh" content="0; url={0}/">\n'
)
INTERNAL = "\nInternal:"
"""Text that marks the docstring of a module that only other modules of tickwheel import."""


def public_modules() -> Iterator[str]:
    """
    Yield the dotted name of every module that users import.
    """
    yield "tickwheel"
    for module in pkgutil.walk_packages(tickwheel.__path__, "tickwheel."):
        parts = module.name.split(".")
        if any(part.startswith("_") for part in parts) or INSIDE.match(module.name):
            continue
        if INTERNAL not in (importlib.import_module(module.name).__doc__ or ""):
            yield module.name


def is_ours(kind: type) -> bool:
    """
    Return True if a class is defined in the package `tickwheel`.
    """
    return kind.__module__.partition(".")[0] == "tickwheel"


def missing_members(inventory: Path) -> list[str]:
    """
    Return the public members of public classes that are not in the *inventory* of the built site.

    If a class is exported by several names, it is enough if its members are listed under one of them. These members may
    be missing: members of other projects, attributes that the class's docstring lists, fields in its signature, members
    that the page of a protocol documents, and the tests of a test suite, which may have no docstring.
    """
    *_, compressed = inventory.read_bytes().split(b"\n", 4)
    listed = {line.split()[0] for line in zlib.decompress(compressed).decode().splitlines()}
    missing: dict[type, list[str]] = {}
    classes = public_classes()
    protocols = [(name, thing) for name, thing in classes.items() if getattr(thing, "_is_protocol", False)]
    agreed = {each for name, thing in protocols for each in members(thing) if f"{name}.{each}" in listed}
    agreed |= {each for _, thing in protocols for each in thing.__annotations__}
    for name, thing in classes.items():
        attributes = re.findall(
            r"^ +(\w+): ", (inspect.getdoc(thing) or "").partition("Attributes:\n")[2], re.MULTILINE
        )
        found = [
            f"{name}.{member}"
            for member in sorted(members(thing) - agreed - {*attributes} - fields(thing))
            if f"{name}.{member}" not in listed and not member.startswith("test_")
        ]
        missing[thing] = min(found, missing.get(thing, found), key=len)
    return [each for found in missing.values() for each in found]


def folded(pages: Path) -> list[str]:
    """
    Return the names of *pages* that show the keyword arguments of a function as `**fields` and not by their names.
    """
    texts = {page.name: re.sub("<[^>]+>", "", page.read_text("utf-8")) for page in sorted(pages.glob("*.html"))}
    return [name for name, text in texts.items() if "**fields: Unpack" in text]


def fields(kind: type) -> set[str]:
    """
    Return the names of the fields that the signature of a class shows.
    """
    return {*getattr(kind, "__dataclass_fields__", ()), *getattr(kind, "_fields", ())}


def members(kind: type) -> set[str]:
    """
    Return the names of the public members of a class that classes of tickwheel define.
    """
    public = (name for name in dir(kind) if not name.startswith("_"))
    return {name for name in public if is_ours(next((base for base in kind.__mro__ if name in vars(base)), object))}


def public_classes() -> dict[str, type]:
    """
    Return the classes that public modules export. The key is the module's name with the name of the export.
    """
    named = {
        f"{name}.{public}": getattr(module, public)
        for name in public_modules()
        for module in [importlib.import_module(name)]
        for public in getattr(module, "__all__", ())
    }
    return {name: thing for name, thing in named.items() if inspect.isclass(thing)}


def module_pages() -> dict[str, str]:
    """
    Return the text of a page for each public module.

    If several modules export a name, it is on the page of the module with the shortest name, because users import it
    from there.
    """
    shown: set[int] = set()
    pages = {}
    for name in sorted(public_modules(), key=lambda each: (each.count("."), each)):
        module = importlib.import_module(name)
        doc = inspect.getdoc(module) or ""
        lines = [name, "=" * len(name), "", f".. module:: {name}", "", doc.partition("\n\n")[0].strip(), ""]
        elsewhere = []
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if id(thing) in shown:
                elsewhere.append(public)
                continue
            if inspect.isclass(thing):
                strangers = sorted({base.__name__ for base in thing.__mro__ if not is_ours(base)} - {thing.__name__})
                inherited = f"   :inherited-members: {', '.join(strangers)}"
                lines += [f".. autoclass:: {name}.{public}", "   :members:", inherited]
                lines += ["   :undoc-members:"] * issubclass(thing, enum.Enum) + [""]
            elif inspect.isroutine(thing):
                lines += [f".. autofunction:: {name}.{public}", ""]
            elif re.search(rf"^{public}\b.*=", inspect.getsource(module), re.MULTILINE):
                lines += [f".. autodata:: {name}.{public}", "   :no-value:", ""]
            else:  # autodata would show the docstring of the type
                said = textwrap.indent(docstring_of(public, thing), "   ")
                lines += [f".. py:data:: {public}", f"   :type: {type(thing).__name__}", "", said, ""]
            if inspect.isclass(thing) or inspect.isroutine(thing):
                shown.add(id(thing))
        if elsewhere:
            lines += ["Also exported here: " + ", ".join(f":py:obj:`{each}`" for each in elsewhere) + ".", ""]
        if len(lines) > 7:  # noqa: PLR2004  the page has more than its head
            pages[name] = "\n".join(lines)
    return pages


@functools.cache
def constants(module: ModuleType) -> dict[str, str]:
    """
    Return the docstring of each constant of a module, by the constant's name.
    """
    body = ast.parse(inspect.getsource(module)).body
    return {
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]): ast.literal_eval(below.value)
        for node, below in pairwise(body)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr)
    }


def docstring_of(name: str, thing: object) -> str:
    """
    Return the docstring of a constant, from the module of tickwheel that defines it.

    Return "" if there is none.
    """
    for each in sorted(sys.modules):
        if each.startswith("tickwheel") and each != "tickwheel._core":
            module = sys.modules[each]
            if getattr(module, name, None) is thing and name in constants(module):
                return inspect.cleandoc(constants(module)[name])
    return ""


def linked(folder: Path, above: str, link: re.Match[str]) -> str:
    """
    Return the Markdown of a link from docs/ to another folder, so that it works in the site.

    The new link leads to a page of the site, or to a copy of the file.
    """
    name = link[1]
    if not (ROOT / name).is_file() or (folder / name).is_file():
        return f"]({above}{'index.md' if name == 'README.md' else name}" if (folder / name).exists() else link[0]
    copy = folder / "files" / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, copy)
    return f"]({above}files/{name}"


def written(name: str) -> str:
    """
    Return the text of the page that the script *name* prints.
    """
    command = [sys.executable, "-P", str(Path(__file__).with_name(f"{name}.py"))]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def source_folders() -> dict[str, str]:
    """
    Return the folder in the repository that has the file of each page.

    Pages that are made from the code are left out.
    """
    folders = {page.relative_to(DOCS).with_suffix("").as_posix(): "docs" for page in DOCS.rglob("*.md")}
    del folders["README"], folders["site/index"]
    return folders | dict.fromkeys((name.removesuffix(".md") for name in FROM_ROOT), "") | {"index": "docs/site"}


def stage(folder: Path) -> None:
    """
    Collect the source files of the site in *folder*, which is emptied first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("README.md"))
    for name in ("index.md", "conf.py", "_static", "_templates"):
        shutil.move(folder / "site" / name, folder / name)
    (folder / SOURCES).write_text(json.dumps(source_folders()), "utf-8")
    for name in FROM_ROOT:
        text = (
            (ROOT / name).read_text("utf-8").replace("](docs/", "](").replace("](decisions)", "](decisions/index.md)")
        )
        (folder / name).write_text(text, "utf-8")
    for name in WRITTEN:
        (folder / f"{name}.md").write_text(written(name), "utf-8")
    for page in folder.rglob("*.md"):
        above = "../" * (len(page.relative_to(folder).parts) - 1)
        page.write_text(LINK.sub(functools.partial(linked, folder, above), page.read_text("utf-8")), "utf-8")
    decisions = sorted(path.stem for path in (folder / "decisions").glob("*.md"))
    head = "# Decisions\n\nWhat was decided against which alternatives, with the figures."
    toctree = "\n".join(["```{toctree}", *decisions, "```"])
    (folder / "decisions" / "index.md").write_text(f"{head}\n\n{toctree}\n", "utf-8")
    (folder / "python").mkdir()
    pages = module_pages()
    for name, text in pages.items():
        (folder / "python" / f"{name}.rst").write_text(text + "\n", "utf-8")
    listed = "\n".join(f"   {name}" for name in pages)
    head = "Python API\n==========\n\nEvery public module, from its docstrings.\n\n.. toctree::\n   :maxdepth: 1\n\n"
    (folder / "python" / "index.rst").write_text(head + listed + "\n", "utf-8")


def versions(site: Path) -> dict[str, list[str]]:
    """
    Return the pages of each version in *site*, the newest version first.
    """
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415  installed with Sphinx

    found = {}
    for index in site.glob("*/index.html"):
        with suppress(InvalidVersion):
            found[Version(index.parent.name)] = index.parent
    return {
        folder.name: sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html"))
        for _, folder in sorted(found.items(), reverse=True)
    }


def publish(site: Path) -> None:
    """
    Write the list of versions in *site*, which every page reads.

    Let the root of the site forward to the newest version.
    """
    listed = versions(site)
    newest = next(iter(listed))
    (site / "versions.js").write_text(f"window.tickwheelVersions = {json.dumps(listed)};\n", "utf-8")
    (site / "index.html").write_text(FORWARD.format(newest), "utf-8")
    shutil.copy(site / newest / "404.html", site / "404.html")


class Pages(http.server.SimpleHTTPRequestHandler):
    """
    Serves the site as a web host does: an unknown address gets the site's own 404 page.
    """

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """
        Answer with an error.
        """
        if code != HTTPStatus.NOT_FOUND:
            super().send_error(code, message, explain)
            return
        page = (Path(self.directory) / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)


def main() -> int:
    """
    Build the site, and serve it if the command line asks for it.

    Return 0, or another exit code if Sphinx or a check of its pages failed.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="where the versions go")
    parser.add_argument("--serve", action="store_true", help="serve them on the loopback")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    source = options.out.parent / "site-source"
    stage(source)
    folder = options.out / tickwheel.__version__
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(source), str(folder)]
    code = subprocess.run(command, check=False).returncode
    if code == 0 and (missing := missing_members(folder / "objects.inv")):
        print(f"the pages of the API lack {len(missing)} members: {', '.join(missing)}", file=sys.stderr)
        code = 1
    if code == 0 and (pages := folded(folder / "python")):
        print(f"keyword arguments have no names on the pages {', '.join(pages)}", file=sys.stderr)
        code = 1
    if code == 0:
        publish(options.out)
    if code == 0 and options.serve:
        handler = functools.partial(Pages, directory=options.out)
        with http.server.ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
            print(f"the site is at http://127.0.0.1:{options.port}/", flush=True)
            server.serve_forever()
    return code


if __name__ == "__main__":
    sys.exit(main())
