"""
The view of handlers and queues: its rows, the reasons why jobs wait, and its buttons for pauses.
"""

from __future__ import annotations

import pytest

QUEUE = {"target": "pull", "handler": "orphans"}

# Returns the text of a named cell in the row of a lane.
CELL = """
const rows = [...document.querySelectorAll("#lane-table tbody tr")];
const row = rows.find((each) => each.dataset.key === arguments[0]);
return row?.querySelector(`[data-name="${arguments[1]}"]`).textContent ?? "";
"""


@pytest.fixture
def orphans(server):
    """
    Set sixty due jobs in a queue without a worker, and a job for a handler that is due in an hour.
    """
    items = [{"do": "set", "key": f"orphan/{n:02}", "delay": 0, **QUEUE} for n in range(60)]
    items.append({"do": "set", "key": "upcoming", "delay": 3600, "handler": "works"})
    assert server.ask("POST", "/v1/jobs:batch", {"items": items}).status == 200
    yield
    server.ask("POST", "/v1/scopes:resume", {"scope": "pull:orphans"})
    for body in ({"prefix": "orphan/", "running": True}, {"prefix": "upcoming"}):
        server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", **body})


def cell(page, name):
    """
    Return the text of the cell *name* in the row of the queue "orphans".
    """
    return page.run(CELL, "pull:orphans", name)


@pytest.mark.usefixtures("orphans")
def test_a_queue_without_a_worker(server, page):
    """
    The view shows a queue whose jobs wait for a worker.

    A button extends the list of these jobs, which then stays extended.
    """
    page.open(server)
    page.wait_for(lambda: "upcoming" in page.texts("#jobs .key"))
    assert "no worker pulls orphans" in page.find("#held").text
    assert not [key for key in page.texts("#jobs .key") if key.startswith("orphan/")]
    page.click("#held a")
    page.wait_for(lambda: cell(page, "Waiting") == "60")
    assert cell(page, "State") == "no worker pulls orphans"
    assert page.texts("#lane-table .stuck th") == ["pull orphans"]
    assert cell(page, "Fired") != "0"
    (lease,) = server.ask("POST", "/v1/pull:lease", {"queue": "orphans"}).json["leases"]
    page.wait_for(lambda: cell(page, "Running") == "1")
    assert page.texts("#lane-table .stuck th") == []
    server.ask("POST", "/v1/pull:release", {"fire_id": lease["fire_id"]})


@pytest.mark.usefixtures("orphans")
def test_pause_from_the_list(server, page):
    """
    A button in the row of a queue opens the form that pauses the queue.

    The row then shows that the queue is paused and that no job runs, and has a button to resume it.
    """
    page.open(server)
    page.click("#views a", "Handlers and queues")
    page.click("[aria-label='Pause pull:orphans']")
    page.find("#pause-scope [name=note]").send_keys("no milk")
    page.click("#pause-scope button", "Pause")
    page.wait_for(lambda: cell(page, "State").startswith("drained: paused ") and "no milk" in cell(page, "State"))
    page.click("[aria-label='Resume pull:orphans']", "Resume")
    page.wait_for(lambda: server.ask("GET", "/v1/scopes").json["pauses"] == [])
