"""
The documentation site keeps its versions side by side.

Each page links to its other versions.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("packaging", reason="packaging is not installed: pip install packaging")

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/example/tickwheel"
AXE = Path(sys.prefix, "clients", "node_modules", "axe-core", "axe.min.js")
FINDINGS = """
const [done] = arguments;
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(
  violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]),
));
"""
PAGE = """<!doctype html><html data-content_root="{above}"><meta charset="utf-8"><title>{version}</title>
<label hidden>Version <select id="versions" data-version="{version}"></select></label>
<script src="{above}_static/versions.js" defer></script></html>"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """
    Return a site of three versions.

    The oldest version lacks a page.
    """
    for version, pages in {"0.9.0": ["index"], "0.10.0": ["index", "how/to"], "0.10.0rc1": ["index", "how/to"]}.items():
        for page in [*pages, "404"]:
            path = tmp_path / version / f"{page}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PAGE.format(above="../" * page.count("/") or "./", version=version), "utf-8")
        (tmp_path / version / "_static").mkdir()
        shutil.copy(ROOT / "docs" / "site" / "_static" / "versions.js", tmp_path / version / "_static")
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "index.html").write_text("no version", "utf-8")
    return tmp_path


def test_versions_are_listed(script: ModuleType, site: Path) -> None:
    """
    The newest version comes first.

    Folders that are not versions are left out, and the root leads to the newest version.
    """
    script.publish(site)
    listed = json.loads((site / "versions.js").read_text("utf-8").partition("= ")[2].rstrip(";\n"))
    assert list(listed) == ["0.10.0", "0.10.0rc1", "0.9.0"]
    assert listed["0.10.0"] == ["404.html", "how/to.html", "index.html"]
    assert "url=0.10.0/" in (site / "index.html").read_text("utf-8")
    assert (site / "404.html").read_text("utf-8") == (site / "0.10.0" / "404.html").read_text("utf-8")


def test_a_missing_page(script: ModuleType, site: Path) -> None:
    """
    `make docs-serve` answers a request for a missing page with the site's own 404 page, as a web host does.
    """
    script.publish(site)
    handler = functools.partial(script.Pages, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/0.10.0/nothing.html", timeout=20)
        server.shutdown()
    with caught.value as answer:
        assert (answer.code, answer.read()) == (404, (site / "404.html").read_bytes())


@pytest.mark.slow
def test_a_page_leads_to_other_versions(script: ModuleType, site: Path, browser: Any) -> None:
    """
    Choosing a version opens that version of the page.

    If that version lacks the page, the first page of the version is opened.
    """
    script.publish(site)
    browser.get((site / "0.10.0" / "how" / "to.html").as_uri())
    assert choose(browser, "0.10.0rc1") == (site / "0.10.0rc1" / "how" / "to.html").as_uri()
    assert choose(browser, "0.9.0") == (site / "0.9.0" / "index.html").as_uri()
    (site / "versions.js").unlink()
    browser.get((site / "0.9.0" / "index.html").as_uri())
    assert browser.execute_script("return document.querySelector('label').hidden")


def choose(browser: Any, version: str) -> str:
    """
    Choose a version on the open page.

    Return the address of the page that opens.
    """
    from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: PLC0415 only where it is installed

    wait = WebDriverWait(browser, 20, 0.05)
    wait.until(lambda _: not browser.execute_script("return document.querySelector('label').hidden"))
    Select(browser.find_element("id", "versions")).select_by_value(version)
    wait.until(lambda _: browser.title == version)
    address: str = browser.current_url
    return address


def test_every_page_can_be_edited_where_its_file_is(script: ModuleType) -> None:
    """
    The script knows the folder of each page's source file.

    Pages that are made from the code have no source file.
    """
    folders = script.source_folders()
    for page, folder in folders.items():
        assert (ROOT / folder / f"{page}.md").is_file(), page
    assert {"index", "durable", "explanation/native-wheel", "CONTRIBUTING"} <= folders.keys()
    assert not {"api", "reference", "metrics", "decisions/index", "python/tickwheel", "genindex"} & folders.keys()


WIDE = """
# Wide

|      | A |
|------|---|
| cell | b |

```python
%s
```
"""


@pytest.fixture(scope="module")
def built(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Return the folder of a small site.

    The site is built with the configuration of the real site.
    """
    for library in ("furo", "myst_parser", "sphinx_copybutton", "sphinx_sitemap", "notfound", "sphinxext.opengraph"):
        pytest.importorskip(library, reason=f"{library} is not installed: pip install -r requirements/docs.txt")
    folder = tmp_path_factory.mktemp("site")
    source, target = folder / "source", folder / "built"
    (source / "explanation").mkdir(parents=True)
    for name in ("conf.py", "_static", "_templates"):
        path = ROOT / "docs" / "site" / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, source / name)
    (source / "sources.json").write_text(json.dumps(script.source_folders()), "utf-8")
    for page in ("api", "durable", "CONTRIBUTING", "explanation/native-wheel"):
        (source / f"{page}.md").write_text(f"# {page}\n", "utf-8")
    (source / "durable.md").write_text(WIDE % ("wide = 1  " * 60), "utf-8")
    listed = "```{toctree}\n:caption: Pages\n\napi\ndurable\nCONTRIBUTING\nexplanation/native-wheel\n```"
    (source / "index.md").write_text(f"# First\n\nIn the {{{{ repository }}}}.\n\n{listed}\n", "utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(target)]
    environment = {**os.environ, "TICKWHEEL_REPOSITORY_URL": REPOSITORY}
    subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True)
    return target


@pytest.mark.slow
@pytest.mark.skipif(not AXE.is_file(), reason="there is no npm, by which make installs axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_is_accessible(built: Path, browser: Any, scheme: str) -> None:
    """
    On each kind of page axe finds no barrier for people with low vision or without sight, or without a mouse.
    """
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for page in ("index", "durable", "search", "genindex"):
        browser.get((built / f"{page}.html").as_uri())
        browser.execute_script(AXE.read_text("utf-8"))
        assert browser.execute_async_script(FINDINGS) == [], page


def test_edit_this_page(built: Path) -> None:
    """
    "Edit this page" links to the source file of the page in the repository, also on the first page.

    Generated pages lack this link.
    """

    def edited(page: str) -> list[str]:
        text = (built / f"{page}.html").read_text("utf-8")
        return re.findall(r'href="([^"]*)"[^>]*rel="edit"', text)

    branch = f"{REPOSITORY}/edit/main"
    assert edited("index") == [f"{branch}/docs/site/index.md"]
    assert edited("durable") == [f"{branch}/docs/durable.md"]
    assert edited("explanation/native-wheel") == [f"{branch}/docs/explanation/native-wheel.md"]
    assert edited("CONTRIBUTING") == [f"{branch}/CONTRIBUTING.md"]
    assert edited("api") == edited("genindex") == []
    assert f'href="{REPOSITORY}">repository</a>' in (built / "index.html").read_text("utf-8")
