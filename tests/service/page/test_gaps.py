"""
The page names the period of the firings that it missed while its stream was interrupted.
"""

from __future__ import annotations

import pytest

DEAD = {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}
# Takes three snapshots with these firings, and returns the text about a gap after each.
SNAPSHOTS = """
const { Firings } = await import("/static/firings.js");
const end = { lateness_ms: 1, outcome: "succeeded", attempt: 1 }, gap = document.getElementById("gap");
const firing = (n) => ({ fire_id: `${n}/1/1`, key: `${n}`, fired_at: new Date(1000 * n).toISOString(), ...end });
const firings = new Firings(() => null);
gap.hidden = true;
return [[1, 2, 3], [3, 4], [8, 9]].map((numbers) => {
  firings.take({ firings: numbers.map(firing), is_snapshot: true });
  return gap.hidden ? "" : gap.textContent;
});
"""


def test_a_gap_of_the_stream(start, page):
    """
    If the stream was interrupted and firings were missed, the page shows the period of the missed firings.
    """
    page.open(start())
    page.wait_for(lambda: page.find("#firings-empty").is_displayed())
    first, overlapping, apart = page.run(f"return (async () => {{{SNAPSHOTS}}})()")
    assert (first, overlapping) == ("", "")
    assert apart.startswith("Not seen: firings from ")
    assert (":04.000 to " in apart, ":08.000" in apart) == (True, True)


@pytest.fixture
def letters(server):
    """
    Return the keys of three dead letters, the latest first. This differs from the order of the keys.
    """
    keys = ["latest/1", "latest/3", "latest/2"]
    with server.live() as live:
        for key in keys:
            server.job("PUT", key, DEAD)
            live.firing(key, "died")
    yield keys[::-1]
    for key in keys:
        server.job("DELETE", key)


def test_newest_first(server, page, letters):
    """
    Dead letters are listed by key or, if the user chooses so, with the latest first.
    """
    page.open(server)
    page.click("#views [href='#dead']")
    page.wait_for(lambda: page.texts("#letters .key") == sorted(letters))
    page.click("#newest")
    page.wait_for(lambda: page.texts("#letters .key") == letters)
