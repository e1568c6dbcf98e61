"""
Changes of a single job in its form on the page.
"""

from __future__ import annotations

from typing import Any


def opened(server: Any, page: Any, key: str) -> None:
    """
    Open the form in which the job *key* can be changed.
    """
    page.browser.get("about:blank")
    page.browser.get(f"http://{server.host}:{server.port}/#job/{key}")
    page.wait_for(lambda: page.texts("#detail-title") == [key])
    page.click("#detail summary", "Edit")


def test_payload(server, page):
    """
    If the payload is changed, every digit of it is saved, and the due time stays the same.

    Undo restores the old payload.
    """
    body = {"at": "2050-01-01T00:00:00.5Z", "payload": {"to": "a"}, "expires": 60, "target": "log"}
    before = server.job("PUT", "edited", body).json["job"]
    opened(server, page, "edited")
    page.fill(".edit textarea", '{"to": ')
    assert "not JSON" in page.run("return document.querySelector('.edit textarea').validationMessage")
    page.fill(".edit textarea", '{"to": "b", "big": 12345678901234567890}')
    page.click(".edit button", "Save")
    page.wait_for(lambda: "Changed edited" in "".join(page.texts(".toast")))
    after = server.job("GET", "edited").json
    assert after["payload"] == {"to": "b", "big": 12345678901234567890}
    changed = {"payload", "generation"}
    assert {name for name, value in before.items() if after[name] != value} == changed
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "edited").json["payload"] == {"to": "a"})
    assert server.job("GET", "edited").json["due_at"] == before["due_at"]
    server.job("DELETE", "edited")


def test_a_job_that_waits_for_a_retry(server, page):
    """
    If a failed job is changed while it waits for a retry, it keeps its number of attempts and its error.
    """
    server.job("PUT", "edited", {"delay": 0, "handler": "fails", "retry": {"attempts": 9, "base_s": 3600}})
    page.open(server)
    page.wait_for(lambda: server.job("GET", "edited").json.get("error"))
    before = server.job("GET", "edited").json
    opened(server, page, "edited")
    page.fill(".edit textarea", "1")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["payload"] == 1)
    changed = server.job("GET", "edited").json
    assert changed == before | {"payload": 1, "generation": changed["generation"]}
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "edited").json["payload"] is None)
    undone = server.job("GET", "edited").json
    assert undone == before | {"generation": undone["generation"]}
    server.job("DELETE", "edited")


def test_undone_rule(server, page):
    """
    If a changed rule is undone, the job gets its grace, phase and next run back.
    """
    body = {"every": 600, "misfire": "skip", "misfire_grace": 90, "max_runs": 5, "target": "log"}
    before = server.job("PUT", "edited", body).json["job"]
    for fields in ({"misfire": "once", "max_runs": ""}, {"every": "3h"}):
        opened(server, page, "edited")
        for name, value in fields.items():
            page.fill(f".edit [name={name}]", value)
        page.click(".edit button", "Save")
        page.wait_for(lambda: server.job("GET", "edited").json["recurrence"] != before["recurrence"])
        page.click(".toast button", "Undo")
        page.wait_for(lambda: server.job("GET", "edited").json["recurrence"].get("max_runs") == 5)
        page.wait_for(lambda: server.job("GET", "edited").json["due_at"] == before["due_at"])
        after = server.job("GET", "edited").json["recurrence"]
        assert (after["anchor_at"] - before["recurrence"]["anchor_at"]) % 600_000 == 0
        assert after == before["recurrence"] | {"anchor_at": after["anchor_at"]}
    server.job("DELETE", "edited")


def test_rule(server, page):
    """
    If the cron line and zone of a recurring job are changed, its due time follows the new rule.

    If the old line and zone are restored, the job gets its old due time back.
    """
    body = {"cron": "0 9 * * *", "tz": "Europe/Berlin", "max_runs": 7, "overlap": "once", "target": "log"}
    before = server.job("PUT", "edited", body).json["job"]
    opened(server, page, "edited")
    page.fill(".edit textarea", "1")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["payload"] == 1)
    assert server.job("GET", "edited").json["due_at"] == before["due_at"]
    opened(server, page, "edited")
    page.fill(".edit [name=cron]", "30 3 * * *")
    page.fill(".edit [name=tz]", "UTC")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["recurrence"]["tz"] == "UTC")
    after = server.job("GET", "edited").json
    assert after["due_at"].endswith("T03:30:00Z")
    rule = before["recurrence"] | {"cron": "30 3 * * *", "tz": "UTC"}
    assert after["recurrence"] == rule
    page.wait_for(lambda: not page.run("return document.getElementById('detail').open"))
    server.job("DELETE", "edited")


def test_interval(server, page):
    """
    The interval of a job is changed as text.

    For an invalid text, the page shows the reason and changes nothing.
    """
    server.job("PUT", "edited", {"every": 600, "target": "log"})
    opened(server, page, "edited")
    page.fill(".edit [name=every]", "often")
    page.click(".edit button", "Save")
    page.wait_for(lambda: "every is 'often'" in "".join(page.texts(".toast")))
    page.fill(".edit [name=every]", "2h")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["recurrence"]["every_ms"] == 7_200_000)
    server.job("DELETE", "edited")


def test_ends_and_policies(server, page):
    """
    An end, policies and exclusions can be added to a rule and removed from it. All other fields stay the same.
    """
    server.job("PUT", "edited", {"every": 600, "target": "log", "jitter": 2})
    before = server.job("GET", "edited").json
    opened(server, page, "edited")
    page.fill(".edit [name=max_runs]", "9")
    page.fill(".edit [name=overlap]", "all")
    page.fill(".edit [name=misfire]", "skip")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["recurrence"].get("max_runs") == 9)
    after = server.job("GET", "edited").json
    assert after["due_at"] == before["due_at"]
    policies = {"overlap": "all", "misfire": "skip"}
    assert after["recurrence"] == before["recurrence"] | policies | {"max_runs": 9}
    opened(server, page, "edited")
    page.fill(".edit [name=until]", "2050-01-01T00:00:00Z")
    page.fill(".edit [name=max_runs]", "")
    page.fill(".edit [name=exclude]", "2049-12-24/2049-12-26\n * * * * 0\n")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["recurrence"].get("exclude"))
    rule = server.job("GET", "edited").json["recurrence"]
    assert rule["exclude"] == ["2049-12-24/2049-12-26", "* * * * 0"]
    assert rule["until"] == 2_524_608_000_000
    assert rule["every_ms"] == 600_000
    assert policies.items() <= rule.items()
    assert not rule.get("max_runs")
    opened(server, page, "edited")
    page.fill(".edit [name=until]", "")
    page.fill(".edit [name=exclude]", "")
    page.click(".edit button", "Save")
    page.wait_for(lambda: not server.job("GET", "edited").json["recurrence"].get("until"))
    assert not server.job("GET", "edited").json["recurrence"].get("exclude")
    server.job("DELETE", "edited")


def test_grace_and_zone(server, page):
    """
    The grace of an interval and the zone of its exclusions can be changed, and the phase stays the same.
    """
    body = {"every": 600, "misfire": "skip", "exclude": ["* * * * 0"], "tz": "Asia/Tokyo", "target": "log"}
    before = server.job("PUT", "edited", body).json["job"]["recurrence"]
    opened(server, page, "edited")
    page.fill(".edit [name=misfire_grace]", "90s")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["recurrence"].get("grace_ms") == 90_000)
    opened(server, page, "edited")
    assert page.find(".edit [name=misfire_grace]").get_attribute("value") == "90s"
    page.fill(".edit [name=tz]", "UTC")
    page.click(".edit button", "Save")
    page.wait_for(lambda: server.job("GET", "edited").json["recurrence"]["tz"] == "UTC")
    rule = server.job("GET", "edited").json["recurrence"]
    assert (rule["anchor_at"] - before["anchor_at"]) % 600_000 == 0
    assert rule == before | {"tz": "UTC", "grace_ms": 90_000, "anchor_at": rule["anchor_at"]}
    opened(server, page, "edited")
    page.fill(".edit [name=misfire_grace]", "")
    page.click(".edit button", "Save")
    page.wait_for(lambda: "grace_ms" not in server.job("GET", "edited").json["recurrence"])
    server.job("DELETE", "edited")


def test_paused(server, page):
    """
    If a paused job is changed, it stays paused and keeps its due time, even if the change is undone.
    """
    server.job("PUT", "edited", {"every": 600, "payload": "bad", "target": "log"})
    server.job("POST", "edited", {"note": "wait"}, action=":pause")
    before = server.job("GET", "edited").json
    opened(server, page, "edited")
    page.fill(".edit textarea", '"good"')
    page.click(".edit button", "Save")
    page.wait_for(lambda: "Changed edited" in "".join(page.texts(".toast")))
    after = server.job("GET", "edited").json
    assert after == before | {"payload": "good", "generation": after["generation"]}
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "edited").json["payload"] == "bad")
    page.wait_for(lambda: server.job("GET", "edited").json["due_at"] == before["due_at"])
    assert server.job("GET", "edited").json["pause"] == before["pause"]
    server.job("DELETE", "edited")
