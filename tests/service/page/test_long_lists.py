"""
A list that is longer than one answer of the API can be extended by a button, and stays extended.
"""

from __future__ import annotations

COUNT = "return document.querySelectorAll('#jobs .row').length"


def set_all(server, prefix: str, number: int, **fields) -> None:
    """
    Set *number* jobs whose keys begin with *prefix*.
    """
    items = [{"do": "set", "key": f"{prefix}{n:04}", "target": "log", **fields} for n in range(number)]
    assert server.ask("POST", "/v1/jobs:batch", {"items": items}).status == 200


def grow(page) -> int:
    """
    Press "Show more" until it is gone, and return the number of rows.
    """
    while page.find("#more").is_displayed():
        before = page.run(COUNT)
        page.run("document.getElementById('more').click()")
        page.wait_for(lambda before=before: page.run(COUNT) > before or page.texts(".toast"))
        assert page.texts(".toast") == []
    return page.run(COUNT)


def test_schedules(server, page):
    """
    Schedules added by "Show more" stay when the list is refreshed, until the user types another prefix.
    """
    set_all(server, "often/", 280, every=86_400)
    page.browser.get(f"http://{server.host}:{server.port}/#schedules")
    page.wait_for(lambda: len(page.texts("#schedules .key")) == 200)
    assert page.find("#schedules-looked").text == "Looked at all keys up to often/0199 Look further"
    page.click("#schedules-looked button", "Look further")
    page.wait_for(lambda: len(page.texts("#schedules .key")) == 280)
    server.job("PUT", "the last", {"every": 60, "target": "log"})
    page.wait_for(lambda: "the last" in page.texts("#schedules .key"))
    assert len(page.texts("#schedules .key")) == 281
    page.fill("#schedules-search input", "often")
    page.wait_for(lambda: len(page.texts("#schedules .key")) == 200)
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": ""})


def test_jobs(server, page):
    """
    A list of jobs by due time can be extended to a thousand jobs, and a list by key to all jobs.
    """
    set_all(server, "long/", 1010, delay=36_000)
    page.open(server)
    page.wait_for(lambda: page.run(COUNT) == 50)
    assert grow(page) == 1000
    page.fill("#search [name=prefix]", "long/")
    page.wait_for(lambda: page.run(COUNT) == 50)
    assert grow(page) == 1010
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "long/"})
