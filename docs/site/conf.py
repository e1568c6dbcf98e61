"""
How the documentation site is built; `scripts/docs_site.py` puts the pages together and calls Sphinx.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
from collections.abc import Callable
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import ForwardRef
from urllib.parse import urlsplit

from sphinx.pycode import ModuleAnalyzer

with contextlib.redirect_stdout(None):  # it says that it draws no cards without matplotlib; ours is drawn already
    import sphinxext.opengraph  # noqa: F401  it is imported here for its message alone

project = "tickwheel"
author = "the tickwheel maintainers"
copyright = author  # noqa: A001  the name that Sphinx reads
version = release = installed_version("tickwheel")
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_sitemap",
    "notfound.extension",
    "sphinxext.opengraph",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
exclude_patterns = ["site"]
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence", "substitution"]

default_role = "code"  # docstrings write names in single backticks, as Markdown does
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True  # a default that depends on the machine, such as its number of processors, stays code
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"tickwheel {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("scene.js", {"defer": "defer"})]
html_favicon = "_static/wheel.svg"
html_logo = "_static/wheel.svg"
html_baseurl = f"{os.environ.get('TICKWHEEL_DOCS_URL', 'http://localhost:8000/').rstrip('/')}/{version}/"
html_extra_path = ["explanation/watch-hierarchical.html", "explanation/watch-native.html"]
html_copy_source = False
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_theme_options = {"navigation_with_keys": True}
myst_substitutions = {"repository": "repository"}
if repository := os.environ.get("TICKWHEEL_REPOSITORY_URL"):  # where the site is published
    myst_substitutions = {"repository": f"[repository]({repository})"}
    html_theme_options |= {  # they add "edit this page"
        "source_repository": repository.rstrip("/"),
        "source_branch": "main",
        "footer_icons": [{"name": "Repository", "url": repository, "html": "Repository", "class": ""}],
    }
sitemap_url_scheme = "{link}"
sitemap_show_lastmod = False
notfound_urls_prefix = urlsplit(html_baseurl).path
notfound_context = {
    "title": "Page not found",
    "body": f"""<h1>Page not found</h1>
<p>There is no page at this address. It may have another name in this version.</p>
<p>Search, or begin at <a href="{notfound_urls_prefix}index.html">the first page</a>.</p>""",
}
ogp_site_url = html_baseurl
ogp_description_length = 200
ogp_social_cards = {"enable": False}
ogp_image = f"{html_baseurl}_static/card.png"
ogp_image_alt = "A timing wheel, and the words: timers by the million, and timers that survive a crash"
copybutton_prompt_text = "$ "

SOURCE_FOLDERS = json.loads(Path(__file__).with_name("sources.json").read_text("utf-8"))
REFERENCE = re.compile(r"(?<![`\w])(\w+)_(?=[^\w`]|$)")
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples|Note):$")


def as_drawn(_app, _what, _name, _thing, _options, lines) -> None:
    """
    Keep drawings and tables in a docstring as they are: Sphinx would fold an indented block or a table of bars.
    """
    drawn: list[str] = []
    is_section = is_literal = False
    for number, line in enumerate(lines):
        before = lines[number - 1].strip() if number else ""
        is_indented = line.startswith("    ")
        if SECTION.match(line):
            is_section = True
        elif line.strip() and not is_indented:
            is_section = False
        begins = not before and ((is_indented and not is_section) or line.startswith("| "))
        if begins and not is_literal and not line.lstrip().startswith(">>>"):
            drawn += ["::", ""]
            is_literal = True
        elif is_literal and line.strip() and not is_indented and not line.startswith("|"):
            is_literal = False
        if is_literal:
            drawn.append(f"    {line}" if line.startswith("|") else line)
        else:
            drawn.append(REFERENCE.sub(r"\1\\_", line))  # a name that ends so is not a link
    lines[:] = drawn


def with_fields(_app, _what, _name, thing, _options, signature, returned) -> tuple[str, str] | None:
    """
    Write the keyword arguments that a function takes as `**fields: Unpack[Fields]` one by one, as callers write them.
    """
    if signature is None or not inspect.isroutine(thing) or "**fields" not in signature:
        return None
    kind = inspect.unwrap(thing).__annotations__.get("fields", "")
    name = re.fullmatch(r"Unpack\[(\w+)\]", str(kind))
    fields = name and inspect.unwrap(thing).__globals__.get(name[1])
    if not fields:
        return None
    listed = ", ".join(f"{each}: {shown(kind)} = ..." for each, kind in fields.__annotations__.items())
    star = "" if re.search(r"[(\s]\*,", signature) else "*, "
    return re.sub(r"\*\*fields(?:: [^,)]*)?", lambda _: star + listed, signature), returned


def one_signature(analyze: Callable[[ModuleAnalyzer], None]) -> Callable[[ModuleAnalyzer], None]:
    """
    Return what analyzes a module and leaves out the overloads of a function with `**fields`.

    They differ in what is returned; its own signature has all arguments, which `with_fields` writes one by one.
    """

    def analyzed(self) -> None:
        analyze(self)
        for name, signatures in [*self.overloads.items()]:
            if any("fields" in signature.parameters for signature in signatures):
                del self.overloads[name]

    return analyzed


def shown(kind) -> str:
    """
    Return an annotation as the source has it.
    """
    return kind.__forward_arg__ if isinstance(kind, ForwardRef) else getattr(kind, "__name__", str(kind))


def with_source(_app, page, _template, context, _doctree) -> None:
    """
    Let "edit this page" lead to the file of a page, and leave it out where the page is made from the code.
    """
    if page in SOURCE_FOLDERS:
        context["theme_source_directory"] = SOURCE_FOLDERS[page]
    else:
        context["page_source_suffix"] = ""


REPAIRS = {
    r'role="heading"(?! aria-level)': 'role="heading" aria-level="2"',
    r'<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    r'<aside class="toc-drawer([^"]*)">': r'<aside class="toc-drawer\1" aria-label="Sections">',
    r'class="content-icon-container">': 'class="content-icon-container" role="navigation" aria-label="This page">',
    r"<pre>": '<pre tabindex="0">',
    r'<div class="table-wrapper([^"]*)">': r'<div class="table-wrapper\1" tabindex="0">',
    r'<th class="head([^"]*)"><p></p></th>': r'<td class="head\1"></td>',
    r'<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}
"""
By pattern, its replacement in each page: readers without a mouse scroll wide blocks with the keys, and screen readers
need the level of a heading, the name of a landmark, and no header without words. The theme leaves these out.
"""


def make_accessible(app, error) -> None:
    """
    Repair the written pages, as a theme's templates do not make all of their parts.
    """
    if error is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text("utf-8")
        for pattern, replacement in REPAIRS.items():
            text = re.sub(pattern, replacement, text)
        page.write_text(text, "utf-8")


def setup(app) -> None:
    """
    Connect the functions above; those for docstrings run before napoleon does.
    """
    app.connect("html-page-context", with_source)
    app.connect("build-finished", make_accessible)
    ModuleAnalyzer.analyze = one_signature(ModuleAnalyzer.analyze)
    app.connect("autodoc-process-docstring", as_drawn, priority=400)
    app.connect("autodoc-process-signature", with_fields)
