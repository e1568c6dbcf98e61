"""
Bulk changes on the page: all jobs that a search finds, or all jobs of a handler or target.
"""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys


def choose(page, state, verb):
    """
    List the jobs of these tests that are in *state*, and choose *verb* for them.
    """
    page.find("#search [name=state]").send_keys(state)
    page.wait_for(lambda: page.texts("#jobs .key") == ["many/0", "many/1", "many/2"])
    page.wait_for(lambda: page.browser.find_elements("css selector", f"#bulk option[value={verb}]"))
    page.find("#bulk select").send_keys(verb)
    page.click("#bulk button", "Count them")


def test_change_of_all_found_jobs(server, page):
    """
    The first press of the button for bulk changes counts the jobs that the search has found.

    The second press moves, pauses, resumes or cancels these jobs.
    """
    for number in range(3):
        server.job("PUT", f"many/{number}", {"delay": 3600 + number, "target": "log"})
    server.job("PUT", "one", {"delay": 3600, "target": "log"})
    due_at = server.job("GET", "many/0").json["due_at"]
    page.open(server)
    page.find("#search [name=prefix]").send_keys("many/")
    page.click("#bulk summary")
    choose(page, "pending", "move")
    page.click("#bulk button", "Move 3 jobs")
    page.wait_for(lambda: "Changed 3 jobs" in "".join(page.texts(".toast")))
    assert server.job("GET", "many/0").json["due_at"] > due_at
    choose(page, "pending", "pause")
    page.click("#bulk button", "Pause 3 jobs")
    page.wait_for(lambda: page.texts("#jobs .when") == ["paused"] * 3)
    choose(page, "paused", "resume")
    page.click("#bulk button", "Resume 3 jobs")
    page.wait_for(lambda: page.texts("#jobs .key") == [])
    choose(page, "pending", "cancel")
    page.wait_for(lambda: page.texts("#bulk button") == ["Cancel 3 jobs"])
    page.find("#search [name=prefix]").send_keys("x")  # another search has to be counted again
    page.wait_for(lambda: page.texts("#bulk button") == ["Count them"])
    page.click("#bulk button")
    page.wait_for(lambda: "There are none" in "".join(page.texts(".toast")))
    assert server.job("GET", "many/0").status == 200
    page.find("#search [name=prefix]").send_keys(Keys.BACKSPACE)
    choose(page, "pending", "cancel")
    page.click("#bulk button", "Cancel 3 jobs")
    page.wait_for(lambda: server.job("GET", "many/0").status == 404)
    assert server.job("GET", "one").status == 200
    server.job("DELETE", "one")


def test_more_filters(server, page):
    """
    Jobs are found by a part of the key, handler, target or error. The address of the page keeps the filters.
    """
    queues = {"shop/red/1": "a", "shop/blue/2": "a", "shop/red/3": "b"}
    for key, queue in queues.items():
        server.job("PUT", key, {"delay": 3600, "target": "pull", "handler": queue})
    server.job("PUT", "red/4", {"delay": 3600, "target": "log"})
    page.open(server)
    page.click("#narrow summary")
    fields = {name: page.find(f"#narrow [name={name}]") for name in ("contains", "handler", "target", "error")}
    fields["contains"].send_keys("red")
    page.wait_for(lambda: page.texts("#jobs .key") == ["red/4", "shop/red/1", "shop/red/3"])
    fields["target"].send_keys("pull")
    page.wait_for(lambda: page.texts("#jobs .key") == ["shop/red/1", "shop/red/3"])
    fields["handler"].send_keys("b")
    page.wait_for(lambda: page.texts("#jobs .key") == ["shop/red/3"])
    assert page.run("return location.hash") == "#overview?contains=red&handler=b&target=pull"
    page.click("#bulk summary")
    page.click("#bulk button", "Count them")
    page.click("#bulk button", "Pause 1 job")
    page.wait_for(lambda: server.job("GET", "shop/red/3").json["pause"] is not None)
    assert server.job("GET", "shop/red/1").json["pause"] is None
    fields["error"].send_keys("never")
    page.wait_for(lambda: page.texts("#jobs-empty") == ["No pending job matches."])
    page.run("location.hash = '#overview?handler=a'")
    page.wait_for(lambda: page.texts("#jobs .key") == ["shop/blue/2", "shop/red/1"])
    assert page.find("#narrow [name=handler]").get_attribute("value") == "a"
    for key in [*queues, "red/4"]:
        server.job("DELETE", key)


def test_pause_for_maintenance(server, page):
    """
    The user can choose a target from a list, and pause it with a reason.

    The top of the page shows the reason and a button to resume.
    """
    with server.live() as live:
        server.job("PUT", "logged", {"delay": 0, "target": "log"})
        live.firing("logged", "succeeded")
    page.open(server)
    page.click("#views a", "Handlers and queues")
    page.click("#pause-scope summary")
    page.click("#pause-scope option", "log")
    page.find("#pause-scope [name=note]").send_keys("no milk")
    page.click("#pause-scope button", "Pause")
    page.wait_for(lambda: "no milk" in "".join(page.texts("#scopes li")))
    page.click("#scopes button", "Resume")
    page.wait_for(lambda: server.ask("GET", "/v1/scopes").json["pauses"] == [])


def test_undo_and_note(server, page):
    """
    After a bulk change, the page shows a note with an Undo button. The log of acts has one entry.

    Undo affects only jobs that have not run or changed since then.
    """
    keys = [f"undo/{number}" for number in range(3)]
    for key in keys:
        server.job("PUT", key, {"delay": 3600, "target": "log"})
    before = {key: server.job("GET", key).json["due_at"] for key in keys}
    page.open(server)
    page.find("#search [name=prefix]").send_keys("undo/")
    page.click("#bulk summary")
    page.wait_for(lambda: page.texts("#jobs .key") == keys)
    page.find("#bulk select").send_keys("Move")
    assert not page.find("#bulk [name=sure]").is_displayed()
    page.find("#bulk [name=note]").send_keys("milk")
    page.click("#bulk button", "Count them")
    page.click("#bulk button", "Move 3 jobs")
    page.wait_for(lambda: "Changed 3 jobs" in "".join(page.texts(".toast")))
    (entry,) = (each for each in server.ask("GET", "/v1/acts").json["acts"] if each["error"] == "milk")
    assert (entry["outcome"], entry["note"].partition(";")[0]) == ("bulk", "move: 3 changed, 0 refused")
    server.job("PATCH", keys[0], {"delay": 7200})
    moved = server.job("GET", keys[0]).json["due_at"]
    page.click(".toast button", "Undo")
    page.wait_for(lambda: "Undone for 2 jobs; 1 had run or changed" in "".join(page.texts(".toast")))
    assert [server.job("GET", key).json["due_at"] for key in keys] == [moved, before[keys[1]], before[keys[2]]]
    page.wait_for(lambda: page.texts("#bulk button") == ["Count them"])
    page.find("#bulk select").send_keys("Cancel")
    page.click("#bulk button", "Count them")
    page.click("#bulk button", "Cancel 3 jobs")
    page.wait_for(lambda: server.job("GET", keys[1]).status == 404)
    page.wait_for(lambda: len(page.texts(".toast button")) == 1)
    page.click(".toast button", "Undo")
    page.wait_for(lambda: all(server.job("GET", key).status == 200 for key in keys))
    assert server.job("GET", keys[1]).json["due_at"] == before[keys[1]]
    for key in keys:
        server.job("DELETE", key)


def test_many_are_confirmed(server, page):
    """
    For a change of more than 100 jobs, the user must confirm by typing the number of jobs.
    """
    items = [{"do": "set", "key": f"crowd/{number:03}", "delay": 3600, "target": "log"} for number in range(101)]
    server.ask("POST", "/v1/jobs:batch", {"items": items})
    page.open(server)
    page.find("#search [name=prefix]").send_keys("crowd/")
    page.click("#bulk summary")
    page.wait_for(lambda: "crowd/000" in page.texts("#jobs .key"))
    page.find("#bulk select").send_keys("Pause")
    page.click("#bulk button", "Count them")
    page.click("#bulk button", "Pause 101 jobs")
    assert page.run("return document.querySelector('#bulk form').checkValidity()") is False
    page.find("#bulk [name=sure]").send_keys("101")
    page.click("#bulk button", "Pause 101 jobs")
    page.wait_for(lambda: "Changed 101 jobs" in "".join(page.texts(".toast")))
    assert server.job("GET", "crowd/100").json["pause"] is not None
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "crowd/"})
