"""
Manifests over HTTP: `PUT /v1/manifests/{name}`.
"""

from __future__ import annotations

import itertools
from urllib.parse import quote, urlencode

import pytest

NAMES = (f"manifest {number}" for number in itertools.count())


@pytest.fixture
def put(server):
    """
    Return a function that declares the jobs of a new manifest.
    """
    name = next(NAMES)

    def declare(*keys, **fields):
        each = fields.pop("each", {})
        jobs = [{"key": f"{name}/{key}", "every": 3600, "target": "log"} | each for key in keys]
        return server.ask("PUT", f"/v1/manifests/{quote(name)}", {"jobs": jobs} | fields)

    declare.name = name
    declare.keys = lambda **query: [
        job["key"].removeprefix(f"{name}/")
        for job in server.ask("GET", f"/v1/jobs?{urlencode({'prefix': name} | query)}").json["jobs"]
    ]
    return declare


def words(answer):
    """
    Return the outcome for each job of a declaration.
    """
    assert answer.status == 200, answer.body
    return [each["outcome"] for each in answer.json["jobs"]]


def test_a_declaration(put, server):
    """
    A declaration creates, keeps, changes or cancels jobs, so that the manifest has exactly the listed jobs.
    """
    first = put("a", "b", revision=3)
    assert (words(first), first.json["outcome"], first.json["revision"]) == (["created"] * 2, "changed", 3)
    assert first.json["manifest"] == first.json["jobs"][0]["job"]["manifest"] == put.name
    again = put("b", "a", revision=3)
    assert (words(again), again.json["outcome"]) == (["unchanged"] * 2, "unchanged")
    tried = put("b", "c", revision=4, dry_run=True)
    assert words(tried) == ["unchanged", "created", "cancelled"]
    assert (tried.json["jobs"][1]["before"], tried.json["jobs"][2]["job"]) == (None, None)
    assert put.keys() == ["a", "b"]
    assert words(put("b", "c", revision=4)) == words(tried)
    assert put.keys(manifest=put.name) == ["b", "c"]
    assert put.keys(manifest="another") == []
    listed = server.ask("GET", f"/v1/schedules?{urlencode({'manifest': put.name})}").json["schedules"]
    assert [(each["key"], each["manifest"]) for each in listed] == [(f"{put.name}/{key}", put.name) for key in "bc"]
    late = put("a", revision=3)
    assert (late.json["outcome"], late.json["revision"], late.json["jobs"]) == ("superseded", 4, [])
    assert words(put("a", revision=3, rollback=True)) == ["created", "cancelled", "cancelled"]
    assert words(put(allow_empty=True)) == ["cancelled"]


@pytest.mark.parametrize(
    ("keys", "fields", "word"),
    [
        ((), {}, "allow_empty"),
        (("a", "a"), {}, "twice"),
        (("a",), {"each": {"delay": 5, "every": None}}, "every"),
        (("a",), {"each": {"mode": "keep"}}, "mode"),
        (("a",), {"each": {"handler": "nobody", "target": "handler"}}, "nobody"),
        (("a",), {"each": {"if_generation": 0}}, "if_generation"),
        (("a",), {"revision": -1}, "revision"),
        (("a",), {"revision": 1.5}, "revision"),
        (("a",), {"rollback": True}, "rollback"),
        (("a",), {"rollback": "yes"}, "rollback"),
        (("a",), {"unknown": 1}, "unknown"),
    ],
)
def test_invalid_declarations(put, keys, fields, word):
    """
    The answer to an invalid declaration is a problem document that names the fault, and no job changes.
    """
    answer = put(*keys, **fields)
    assert answer.status == 422, answer.body
    assert word in answer.json["detail"]
    assert put.keys() == []


def test_a_key_of_another_manifest(put, server):
    """
    A declaration, or a request to set a job, is refused if its key belongs to another manifest.
    """
    put("a")
    jobs = [{"key": key, "every": 5, "target": "log"} for key in (f"{put.name}/new", f"{put.name}/a")]
    answer = server.ask("PUT", "/v1/manifests/rival", {"jobs": jobs})
    assert answer.status == 422
    assert put.name in answer.json["detail"]
    assert put.keys() == ["a"]
    answer = server.job("PUT", f"{put.name}/a", {"every": 5, "target": "log", "manifest": "rival"})
    assert answer.status == 422
    answer = server.ask("POST", "/v1/jobs:batch", {"items": [{"do": "set", "manifest": "rival"} | jobs[1]]})
    assert [result["outcome"] for result in answer.json["results"]] == ["refused"]
    assert put.keys(manifest=put.name) == ["a"]
