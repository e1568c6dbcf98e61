"""
Dead letters with equal errors are grouped into an incident, and each incident is summarised.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwheel.jobs.incidents import LETTERS_MAX, incidents_of, normalised
from tickwheel.scheduler import Incidents, Job

HOUR_MS = 3_600_000
NOW = 100 * HOUR_MS


def letter(
    key: str, error: str | None = "it broke", ago_ms: int = 0, target: str = "handler", handler: str = "h"
) -> Job:
    """
    Return a dead letter.
    """
    return Job(key, 1, NOW - ago_ms, target=target, handler=handler, error=error)


def look(*letters: Job, **fields: str) -> Incidents:
    return incidents_of(letters, NOW, **fields)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("", ""),
        ("ValueError: it broke", "ValueError: it broke"),
        ("KeyError: 'order-17'", "KeyError: …"),
        ("KeyError: 'invoice_id'", "KeyError: 'invoice_id'"),
        (
            "AttributeError: 'Order' object has no attribute 'paid'",
            "AttributeError: 'Order' object has no attribute 'paid'",
        ),
        ("ModuleNotFoundError: No module named 'app.mail'", "ModuleNotFoundError: No module named 'app.mail'"),
        ("shop.errors.KeyErrorOfOurs: 'ann'", "shop.errors.KeyErrorOfOurs: …"),
        ('ValueError: no such table "jobs"', 'ValueError: no such table "jobs"'),
        (
            'UniqueViolation: duplicate key, constraint "users_pkey"',
            'UniqueViolation: duplicate key, constraint "users_pkey"',
        ),
        ("ValueError: no such table 'jobs_2024'", "ValueError: no such table …"),
        ("ValueError: suitable 'ann'", "ValueError: suitable …"),
        ('no user "ann" in `users`', "no user … in …"),
        ("can't open it, isn't there", "can't open it, isn't there"),
        ("timeout after 2.5 s at 127.0.0.1:5432", "timeout after … s at …"),
        ("2030-01-01T09:04:00.123Z is past", "…-…-…T…Z is past"),
        ("<Order object at 0x7f3a5c>", "<Order object at …>"),
        ("job 7E2b0c7a-1F2e-4d3c-9b8a-0123456789ab is gone", "job … is gone"),
        ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit …"),
        ("the deadbeef facade, decade", "the deadbeef facade, decade"),
        ("HTTP 503\n\n  from   x", "HTTP … from x"),
        ("disk /dev/sda1 full", "disk … full"),
        ("no file /etc/hosts", "no file /etc/hosts"),
        ("GET https://example.com/orders/17", "GET https://example.com/orders/…"),
        ("order17 of shop٣", "order… of shop٣"),
        ("an 'unclosed quote of 3", "an 'unclosed quote of …"),
        ("e" * 600, "e" * 500),
    ],
)
def test_normalised(error, expected):
    """
    Numbers, identifiers and quoted values are removed from an error.

    The other words stay.
    """
    assert normalised(error) == expected


@pytest.mark.parametrize(
    "char", ["'", '"', "`", "a", "1", "-", "/", " /", " /1", "0x", "a1", " ", "1.", "\n'", "12345678-"]
)
def test_normalised_in_time(char):
    """
    The time to normalise an error is proportional to its length, even for a malicious text.
    """
    assert len(normalised(char * 100_000)) <= 500


def test_groups():
    """
    Dead letters with the same error, target and handler form one incident, whatever numbers the error contains.

    The latest incident comes first.
    """
    found = look(
        letter("a", "KeyError: 'x1'"),
        letter("b", "HTTP 503", 5, "webhook", "https://example.com/7"),
        letter("c", "KeyError: 'y2'", 10),
        letter("d", "HTTP 503", 20, "webhook", "https://example.com/8"),
        letter("e", "HTTP 503", 30, "handler", "https://example.com/8"),
        letter("f", None, 40),
    )
    assert [each.keys for each in found.incidents] == [("a", "c"), ("b", "d"), ("e",), ("f",)]
    keys, http, _, silent = found.incidents
    assert (keys.error, keys.example, keys.count) == ("KeyError: …", "KeyError: 'x1'", 2)
    assert (keys.first_at, keys.last_at) == (NOW - 10, NOW)
    assert http.places == (("webhook", "https://example.com/7", 1), ("webhook", "https://example.com/8", 1))
    assert (silent.error, silent.example) == ("", "")
    assert (found.looked_at, found.is_all) == (6, True)
    assert len({each.fingerprint for each in found.incidents}) == 4


def test_raised_in():
    """
    Dead letters with the same error from different lines of code form separate incidents.

    A search by line finds each of them.
    """
    found = look(
        replace(letter("a", "KeyError: 'x1'"), raised_in="shop.pay+3"),
        replace(letter("b", "KeyError: 'x2'", 1), raised_in="shop.pay+3"),
        replace(letter("c", "KeyError: 'x1'", 2), raised_in="shop.pay+4"),
        letter("d", "KeyError: 'x1'", 3),
    )
    assert [(each.raised_in, each.keys) for each in found.incidents] == [
        ("shop.pay+3", ("a", "b")),
        ("shop.pay+4", ("c",)),
        (None, ("d",)),
    ]
    assert len({each.fingerprint for each in found.incidents}) == 3
    (searched,) = look(replace(letter("a"), raised_in="shop.pay+3"), letter("b"), search="Shop.pay").incidents
    assert searched.keys == ("a",)


def test_fingerprint_stays():
    """
    A fingerprint depends only on error, target and handler.

    It does not depend on the day, the node or the keys.
    """
    (today,) = look(letter("a", "no order 17")).incidents
    (tomorrow,) = incidents_of([replace(letter("b", "no order 18"), due_at=5)], NOW + 1).incidents
    assert today.fingerprint == tomorrow.fingerprint == "6fd1c54410874758"


def test_by_hour():
    """
    Each of the last 24 hours has a count of dead letters.

    Older letters are not counted. Letters from the future are counted in the current hour.
    """
    agos = (-5_000, 0, HOUR_MS - 1, HOUR_MS, 24 * HOUR_MS - 1, 24 * HOUR_MS, 90 * HOUR_MS)
    (incident,) = look(*(letter(f"job {ago}", ago_ms=ago) for ago in agos)).incidents
    assert incident.by_hour == (1, *[0] * 21, 1, 3)
    assert incident.count == len(agos)


def test_search():
    """
    A search finds dead letters by key, error, target and handler, and ignores case.

    `prefix` matches the beginning of the key, in the same case.
    """
    letters = [
        letter("Order/1", "It broke"),
        letter("user/1", "refused", target="webhook", handler="https://Example.com"),
    ]
    for search, keys in {"ORDER": ["Order/1"], "REFUSED": ["user/1"], "web": ["user/1"], "example": ["user/1"]}.items():
        assert [key for each in look(*letters, search=search).incidents for key in each.keys] == keys
    assert look(*letters, search="nothing") == Incidents((), 2, is_all=True)
    assert [each.keys for each in look(*letters, prefix="Order/").incidents] == [("Order/1",)]
    assert look(*letters, prefix="order/").incidents == ()


def test_bounded():
    """
    Only the latest 10,000 dead letters are read, and the answer says whether there are more.

    The list of code lines that raised the errors is limited, too.
    """
    letters = [
        letter(str(number), ago_ms=number, handler="abcdefghij"[number % 10] * (number % 30 + 1))
        for number in range(LETTERS_MAX + 1)
    ]
    found = look(*letters)
    assert (found.looked_at, found.is_all) == (LETTERS_MAX, False)
    assert sum(each.count for each in found.incidents) == LETTERS_MAX
    urls = [letter(str(number), handler=f"https://example.com/{number}") for number in range(50)]
    (incident,) = look(*urls).incidents
    assert (incident.count, len(incident.places)) == (50, 20)
