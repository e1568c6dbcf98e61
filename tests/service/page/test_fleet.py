"""
The fleet view (all nodes) with two nodes on one PostgreSQL.

One of the nodes is killed.
"""

from __future__ import annotations

import signal

import pytest

LEASE_S = 12  # the test must read the page before the lease expires


@pytest.fixture
def store(postgres_url):
    """
    Return the URL of an empty store with short leases.
    """
    return f"{postgres_url}&shards=4&lease_s={LEASE_S}"


def test_two_nodes(store, start, page):
    """
    Each node has a row in the view, whichever node serves the page.

    The row of a killed node turns red, and then the other node takes over its shards.
    """
    first, second = start("--store", store), start("--store", store)
    page.browser.get(f"http://{first.host}:{first.port}/#fleet")
    page.wait_for(lambda: [len(shards) for shards in lanes(page).values()] == [2, 2])
    fleet = second.ask("GET", "/v1/fleet").json
    assert {node["owner"]: node["shards"] for node in fleet["nodes"]} == lanes(page)
    (here,) = (node["owner"] for node in fleet["nodes"] if not node["is_this"])
    (other,) = (node["owner"] for node in fleet["nodes"] if node["is_this"])
    assert state(page, here) == "this process, well"
    assert state(page, other) == "well"
    first.job("PUT", "tea", {"delay": 0, "target": "log"})
    # the lane of the node that fired the job has the count
    page.wait_for(lambda: "1, " in "".join(page.texts("#lanes .load dd")))
    lost = lanes(page)[other]

    second.process.send_signal(signal.SIGSTOP)
    try:
        page.wait_for(lambda: state(page, other).startswith("silent for"))
        assert lanes(page)[other] == lost, "its leases have not ended"
        assert "leases end in" in lane(page, other, ".lease")
        assert page.run(COLOUR, other) != page.run(COLOUR, here)
        page.wait_for(lambda: state(page, other) == "gone")
        page.wait_for(lambda: lanes(page)[here] == [0, 1, 2, 3])
        assert {int(text) for text in page.texts(".lane.this .taken")} == set(lost)
        assert f"{here} took over 2 shards from {other}" in "".join(page.texts("#takeovers li"))
    finally:
        second.process.send_signal(signal.SIGCONT)
    page.wait_for(lambda: state(page, other) == "well" and [len(each) for each in lanes(page).values()] == [2, 2])


LANES = """
return [...document.querySelectorAll("#lanes .lane")].map((lane) =>
    [lane.dataset.key, [...lane.querySelectorAll(".cells li")].map((cell) => Number(cell.textContent))])
"""
PART = """
return [...document.querySelectorAll("#lanes .lane")]
    .find((lane) => lane.dataset.key === arguments[0])?.querySelector(arguments[1]).textContent ?? ""
"""
COLOUR = """
return getComputedStyle([...document.querySelectorAll("#lanes .lane")]
    .find((lane) => lane.dataset.key === arguments[0])).borderLeftColor
"""


def lanes(page) -> dict[str, list[int]]:
    """
    Return the shard numbers that are shown for each owner.
    """
    return dict(page.run(LANES))


def lane(page, owner: str, part: str) -> str:
    """
    Return the text of one *part* of the row of *owner*.
    """
    return page.run(PART, owner, part)


def state(page, owner: str) -> str:
    """
    Return the state that is shown for *owner*.
    """
    return lane(page, owner, ".state")
