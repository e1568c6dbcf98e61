"""
The OpenAPI document compared with the service.

Every request that the document allows gets an answer that the document describes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from years import YEAR

from tickwheel.scheduler import Outcome
from tickwheel.service.examples import ANSWERS, BODIES
from tickwheel.service.replies import REFUSALS

EXAMPLES = int(os.environ.get("TICKWHEEL_EXAMPLES", "20"))
"""
Number of requests generated for each operation.

With `TICKWHEEL_EXAMPLES=2000`, more than twenty thousand requests are generated in all.
"""

BEYOND = {
    "jobs_set": "handlers and targets by their names, cron lines that fire, texts for lengths of time",
    "jobs_move": "texts for lengths of time, instants at most a hundred years ahead",
    "jobs_change": "at least one field; rules for jobs that recur alone; the rest as for jobs_set",
    "jobs_skip": "only jobs that recur have a run to leave out",
    "batches_apply": "refuse_all goes with sets alone; the rest as for jobs_set and jobs_move",
    "batches_bulk": "which fields go with which act, since with over alone",
    "schedules_next": "every or cron, and what goes with each; cron lines that fire; zones by their names",
    "schedules_backfill": "whole numbers are written without a point; since before until",
    "manifests_declare": "an empty list needs allow_empty; every or cron, no mode, and the rest as for jobs_set",
    "scopes_pause": "targets by their names",
    "figures_get_due": "texts for lengths of time, instants at most a hundred years ahead",
    "jobs_list": "instants at most a hundred years ahead",
    "minutes_list": "instants at most a hundred years ahead",
    "acts_list": "instants at most a hundred years ahead",
    "pulls_lease": "texts for lengths of time",
    "pulls_nack": "texts for lengths of time",
    "pulls_release": "texts for lengths of time",
    "pulls_extend": "note goes with progress alone",
}
"""
Rules that OpenAPI cannot express, by operation. A request that violates such a rule may be refused with a 422.
"""

ACCEPTED = ["2xx", 404, 409, 412]
"""Statuses that are accepted for valid requests.

Some are errors, because a schema cannot say which jobs and generations exist."""

CONFIG = f"""
hooks = "schemathesis_hooks"

[checks]
positive_data_acceptance.expected-statuses = {ACCEPTED}

[[operations]]
include-operation-id = {list(BEYOND)}
checks.positive_data_acceptance.expected-statuses = {[*ACCEPTED, 422]}
"""


def test_every_operation_with_an_instant_may_refuse_it(document):
    """
    `BEYOND` lists each operation that takes an instant, because an instant that is too far ahead is refused.
    """
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    with_instants = {each["operationId"] for each in operations if _has_instant(document, each)}
    assert with_instants - BEYOND.keys() == set()
    assert {"jobs_list", "jobs_set", "acts_list"} <= with_instants


def _has_instant(document, operation):
    """
    Return True if a parameter or a body field of *operation* is a date and time.
    """
    waiting, seen = [operation.get("parameters", []), operation.get("requestBody", {})], set()
    while waiting:
        text = json.dumps(waiting.pop())
        if '"date-time"' in text:
            return True
        for kind, name in set(re.findall(r'"#/components/(\w+)/(\w+)"', text)) - seen:
            seen.add((kind, name))
            waiting.append(document["components"][kind][name])
    return False


@pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed: pip install schemathesis")
def test_answers_as_documented(server, tmp_path):
    """
    Valid requests are accepted, and invalid requests are refused.

    Every answer has a documented status, type and form.
    """
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    what = ["--checks", "all", "--max-examples", str(EXAMPLES), "--exclude-path", "/v1/live"]  # the stream does not end
    how = ["--generation-database", "none", "--no-color", "--max-failures", "5"]
    answer = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"http://{server.host}:{server.port}/openapi.json",
            *what,
            *how,
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=60 + 20 * EXAMPLES,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    generated = re.search(r"(\d+) generated, (\d+) passed", answer.stdout)
    assert generated, answer.stdout
    print(generated[0])  # noqa: T201  how many requests, for `pytest -s`
    assert int(generated[1]) == int(generated[2]) > 16 * EXAMPLES


def test_every_operation_is_described(document):
    """
    Every operation has a summary, a unique id and documented answers, and every reference can be resolved.
    """
    ids = []
    for methods in document["paths"].values():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert set(operation["tags"]) <= {tag["name"] for tag in document["tags"]}
            assert operation["summary"].endswith(".")
            assert any(status.startswith("2") for status in operation["responses"])
            assert any(status.startswith("4") for status in operation["responses"])
    assert len(ids) == len(set(ids)) >= 16
    assert BEYOND.keys() <= set(ids)
    assert all(tag["description"] for tag in document["tags"])
    assert document["servers"] == [{"url": "/", "description": "The service that this document is of."}]
    names = set(document["components"]["schemas"])
    text = str(document)
    assert {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]} <= names


@pytest.mark.skipif(find_spec("jsonschema_rs") is None, reason="pip install schemathesis, which brings jsonschema-rs")
def test_answers_have_no_more_than_is_documented(server, document):
    """
    Every answer matches its schema and has no field that the schema lacks.
    """
    import jsonschema_rs  # noqa: PLC0415  where it is installed

    for pause in server.ask("GET", "/v1/scopes").json["pauses"]:  # the generated requests above have paused some
        assert server.ask("POST", "/v1/scopes:resume", {"scope": pause["scope"]}).status == 200
    assert server.job("PUT", "waits", {"delay": 0, "target": "pull", "handler": "scans"}).status == 201
    assert server.job("PUT", "comes back", {"every": 3600, "target": "log"}).status == 201
    with server.live() as live:
        assert server.job("PUT", "fails", {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}).status == 201
        live.firing("fails", "died")
    closed = close({"components": document["components"]})
    asked = 0
    for path, methods in document["paths"].items():
        content = methods.get("get", {"responses": {"200": {}}})["responses"]["200"].get("content", {})
        if "application/json" not in content:
            continue
        key = "comes%20back" if "schedules" in path else "fails"
        query = "?cron=0+9+*+*+*" if path.endswith(":next") else ""
        answer = server.ask("GET", path.replace("{key}", key) + query)
        assert answer.status == 200, (path, answer.body)
        jsonschema_rs.validate(content["application/json"]["schema"] | closed, answer.json)
        asked += 1
    assert asked >= 12


RULES = {
    "cron": {"cron": "0 9 * * 1-5", "tz": "Europe/Berlin", "jitter": 1.5},
    "every": {"every": 60, "until": f"{YEAR}-01-01T00:00:00Z", "max_runs": 9},
    "skip": {"every": "1h", "misfire": "skip", "misfire_grace": "2m", "overlap": "cancel"},
    "all": {"every": "1h", "misfire": "all", "exclude": ["2030-12-24/2030-12-26", "* * * * SAT,SUN"]},
    "retried": {"every": "1h", "delay": 0, "misfire": "all", "expires": "2h", "retry": {"attempts": 2, "base_s": 3600}},
    "dated": {"every": "3d", "time": "02:00", "tz": "Europe/Berlin", "dst_gap": "skip", "dst_overlap": "both"},
    "both days": {"cron": "0 9 1 * MON", "day_match": "both", "pause_after": 3},
    "run ahead": {"every": "1h", "retry": {"attempts": 2, "base_s": 3600}},
}
LATER_RULES = {
    "given up": {"every": "1h", "delay": 0, "handler": "fails", "pause_after": 3, "retry": {"attempts": 1}},
    "counted": {"every": "1h", "delay": 0, "target": "log", "handler": None},
    "then": {"every": "1h", "delay": 0, "handler": "steps", "payload": "/nowhere/to/be/found"},
}


@pytest.mark.skipif(find_spec("jsonschema_rs") is None, reason="pip install schemathesis, which brings jsonschema-rs")
def test_rules_are_as_documented(server, document):
    """
    In jobs, schedules and previews, recurrence rules of all kinds have their documented form.

    The tested rules together use all fields.
    """
    import jsonschema_rs  # noqa: PLC0415  where it is installed

    schemas = document["components"]["schemas"]
    closed, found = close({"components": document["components"]}), set()
    with server.live() as live:
        for name, rule in RULES.items():
            body = {"target": "handler", "handler": "fails", **rule}
            assert server.job("PUT", f"rules/{name}", body).status == 201
        live.firing("rules/retried", "failed")
        assert server.job("POST", "rules/run ahead", action=":run").status == 200
        live.firing("rules/run ahead", "failed")
        for name, outcome in (("given up", "died"), ("counted", "succeeded"), ("then", "running")):
            body = {"target": "handler", **LATER_RULES[name]}
            assert server.job("PUT", f"rules/{name}", body).status == 201
            live.firing(f"rules/{name}", outcome)
        assert server.job("PUT", "rules/then", body | {"payload": 2}).json["outcome"] == "changed"
    for path, kind, items, field in (
        ("/v1/jobs?prefix=rules/", "PageDocument", "jobs", "recurrence"),
        ("/v1/schedules?prefix=rules/", "SchedulesDocument", "schedules", "rule"),
    ):
        answer = server.ask("GET", path)
        jsonschema_rs.validate(closed | {"$ref": f"#/components/schemas/{kind}"}, answer.json)
        rules = [item[field] for item in answer.json[items]]
        assert len(rules) == len(RULES) + len(LATER_RULES)
        found.update(*rules)
    assert found == set(schemas["RuleDocument"]["properties"])
    preview = server.ask("GET", "/v1/schedules:next?every=60&max_runs=2").json
    jsonschema_rs.validate(closed | {"$ref": "#/components/schemas/RunsDocument"}, preview)
    is_rule = jsonschema_rs.validator_for(closed | {"$ref": "#/components/schemas/RuleDocument"}).is_valid
    assert is_rule(preview["rule"])
    assert not is_rule(preview["rule"] | {"max_runs": None})
    assert not is_rule({"misfire": "once", "jitter_ms": 0})
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "rules/"})


@pytest.mark.skipif(find_spec("jsonschema_rs") is None, reason="pip install schemathesis, which brings jsonschema-rs")
def test_outcomes_are_those_of_writes(server, document, tmp_path):
    """
    The document lists exactly the outcomes that a write can have.

    The result of an item in a batch may also be "refused".
    """
    import jsonschema_rs  # noqa: PLC0415  where it is installed

    def outcome(answer):
        jsonschema_rs.validate(schema, answer.json)
        return answer.json["outcome"]

    schema = {"components": document["components"], "$ref": "#/components/schemas/AnswerDocument"}
    with server.live() as live:
        found = [outcome(server.job("PUT", "k", {"delay": 3600, "target": "log"})) for _ in range(2)]
        found += [outcome(server.job("PATCH", "k", {"delay": 7200}))]
        found += [outcome(server.job("POST", "k", {}, action=f":{act}")) for act in ("pause", "resume", "resume")]
        found += [outcome(server.job("DELETE", "k"))]
        server.job("PUT", "dies", {"delay": 0, "handler": "fails", "retry": {"attempts": 1}})
        live.firing("dies", "died")
        found += [outcome(server.job("POST", "dies", {}, action=":replay"))]
        server.job("PUT", "runs", {"delay": 0, "handler": "steps", "payload": str(tmp_path / "never")})
        live.firing("runs", "running")
        found += [outcome(server.ask("DELETE", "/v1/jobs/runs?running=true"))]
        series = {"every": 3600, "handler": "fails", "retry": {"attempts": 1}}
        for more in ({}, {}, {"payload": 2}, {"payload": 2, "mode": "restart", "delay": 0, "max_runs": 1}):
            found += [outcome(server.job("PUT", "series", series | more))]
        live.firing("series", "died")
        found += [outcome(server.job("PUT", "series", series | {"max_runs": 1}))]
    words = ["created", "replaced", "moved", "paused", "resumed", "kept", "cancelled", "replayed", "stopping"]
    series_words = ["unchanged", "changed", "restarted", "dead"]
    assert found == [*words, "created", *series_words]
    words += series_words
    schemas = document["components"]["schemas"]
    assert set(schemas["AnswerDocument"]["properties"]["outcome"]["enum"]) == set(words)
    assert set(schemas["ResultDocument"]["properties"]["outcome"]["enum"]) == {*words, "refused"}
    refusals = {word.value for word in REFUSALS}
    assert set(words) | refusals | {"begun", "settled", "not_owner", "superseded", "key_reused"} == {
        word.value for word in Outcome
    }
    for word in ("stopping", "stopped", "cut_off"):
        assert word in schemas["RecordDocument"]["description"]


def close(schema):
    """
    Return a copy of *schema* in which objects may have only the listed fields.
    """
    if isinstance(schema, list):
        return [close(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(inner) for name, inner in schema.items()}
    return closed | {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else closed


def test_every_documented_address_is_there(server, document):
    """
    The service supports every documented method of every address.

    The addresses of the page itself are not part of the API.
    """
    for path, methods in document["paths"].items():
        for method in methods:
            if path == "/v1/live":
                continue
            answer = server.ask(method.upper(), path.replace("{key}", "not%20there"))
            assert answer.status not in (405, 500), (method, path)
            assert answer.status != 404 or answer.json["type"] == "/problems/job_not_found"


def test_rules_of_bodies_are_described(document):
    """
    The document describes rules that no single type expresses, for example that a job needs exactly one kind of time.
    """
    schemas = document["components"]["schemas"]
    assert {"required": ["delay"]} in schemas["SetBody"]["allOf"][0]["anyOf"]
    assert schemas["SetBody"]["additionalProperties"] is False
    assert "default" not in schemas["SetBody"]["properties"]["delay"]


def test_fields_of_bodies_have_defaults_in_words(document):
    """
    Default values are named only in descriptions. If a schema had them, generated clients would send the field.
    """
    schemas = document["components"]["schemas"]
    bodies = [schema for name, schema in schemas.items() if name.endswith(("Body", "Item"))]
    assert not [field for schema in bodies for field in schema["properties"].values() if "default" in field]
    fields = schemas["SetBody"]["properties"]
    assert fields["target"]["description"].endswith('; by default `"handler"`.')
    assert "y default `5`" in schemas["RetryBody"]["properties"]["attempts"]["description"]


def test_every_operation_has_examples(document):
    """
    Every request body and every JSON answer has an example of its documented type.
    """
    shown = {"request": 0, "answer": 0}
    for methods in document["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                shown["request"] += "example" in content
            for status, answer in operation["responses"].items():
                if status.startswith("2") and "application/json" in answer["content"]:
                    shown["answer"] += "example" in answer["content"]["application/json"]
    assert shown["request"] >= len(BODIES)
    assert shown["answer"] >= len(ANSWERS)
    for kind, example in (BODIES | ANSWERS).items():
        msgspec.json.decode(msgspec.json.encode(example), type=kind)


def test_bounds_are_those_of_the_service(server, document):
    """
    The schema and the service both refuse an empty cursor, and a step of more than a hundred years.
    """
    fields = {
        field["name"]: field["schema"]
        for path in ("/v1/jobs", "/v1/due")
        for field in document["paths"][path]["get"]["parameters"]
    }
    assert fields["cursor"]["minLength"] == 1
    assert server.ask("GET", "/v1/jobs?cursor=").status == 422
    (most,) = (one["maximum"] for one in fields["step"]["anyOf"] if "maximum" in one)
    assert server.ask("GET", f"/v1/due?step={most}&steps=1").status == 200
    assert server.ask("GET", f"/v1/due?step={most + 1}&steps=1").status == 422
