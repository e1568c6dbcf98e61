"""
The Grafana board and the alert rules use only metrics that are really exported.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
UNIT_TESTS = ("alerts-test.yml", "alerts-test-day.yml")
NAME = re.compile(r"\b(?:tickwheel|process)_\w+")
ADDED = {"instance", "job", "alertname", "alertstate"}
"""Labels that Prometheus itself adds to metrics and alerts."""
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
PAIRS = {")": "(", "]": "[", "}": "{"}


def names_of(expression: str) -> set[str]:
    """
    Return the names of the metrics in a PromQL *expression*.
    """
    return set(NAME.findall(expression))


@pytest.fixture
def board(deploy) -> Any:
    return json.loads((deploy / "grafana.json").read_text("utf-8"))


@pytest.fixture
def alerts(deploy) -> list[Any]:
    """
    Return the alert rules.
    """
    document = yaml.safe_load((deploy / "alerts.yml").read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


@pytest.fixture
def expressions(board, alerts) -> list[str]:
    """
    Return every PromQL expression of the board and the alerts.
    """
    return [
        *(target["expr"] for panel in board["panels"] for target in panel["targets"]),
        *(each["expr"] for each in board["annotations"]["list"]),
        *(rule["expr"] for rule in alerts),
    ]


def test_every_name_is_exported(expressions, exported):
    """
    The Grafana board and the alert rules use only metrics that are exported.
    """
    assert {name for each in expressions for name in names_of(each)} - exported.keys() == set()


def test_every_label_is_there(expressions, exported):
    """
    Each label that a PromQL expression uses is a label of one of the metrics in the expression.
    """
    for each in expressions:
        labels = set(LABEL.findall(each)) | {one.strip() for group in GROUPED.findall(each) for one in group.split(",")}
        known = ADDED.union(*(exported[name] for name in names_of(each)))
        assert labels <= known, each


def test_everything_exported_is_seen(expressions, exported):
    """
    Each metric of tickwheel is used on the board or in an alert rule, except metrics that are part of others.
    """
    seen = {re.sub("_(bucket|sum|count)$", "", name) for each in expressions for name in names_of(each)}
    told = {re.sub("_(bucket|sum|count)$", "", name) for name in exported if name.startswith("tickwheel_")}
    by_result = {f"tickwheel_{name}_total" for name in ("fired", "succeeded", "failed", "given_back")}
    others = {"tickwheel_in_memory", "tickwheel_wheel_fires_total"}  # staged and in flight; number of firings
    assert told - seen == by_result | others


def test_the_page_of_scale_names_metrics_and_alerts(deploy, alerts, exported):
    """
    Each alert and each metric that is named on the page about scale exists.
    """
    page = (deploy.parent / "docs" / "scale.md").read_text("utf-8")
    named = set(re.findall(r"Tickwheel[A-Z]\w+", page))
    assert named - {rule["alert"] for rule in alerts} == set()
    metrics = {re.sub("_(bucket|sum|count)$", "", name) for name in exported}
    assert len(named) > 5
    assert set(re.findall(r"tickwheel_\w+", page)) - metrics == set()


def test_expressions_are_whole(expressions):
    """
    In each PromQL expression, brackets match, and rates are taken only of counters and histograms.
    """
    for each in expressions:
        opened = []
        for sign in re.sub(r'"[^"]*"', "", each):
            if sign in PAIRS.values():
                opened.append(sign)
            elif sign in PAIRS:
                assert opened.pop() == PAIRS[sign], each
        assert opened == [], each
        for name in re.findall(r"(?:rate|increase)\((\w+)", each):
            assert name.endswith(("_total", "_bucket", "_sum", "_count")), each


def test_prometheus_itself(deploy):
    """
    If promtool, the checker of Prometheus, is installed, it accepts the alert rules.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    subprocess.run([promtool, "check", "rules", str(deploy / "alerts.yml")], check=True, capture_output=True)


def test_alerts_come_and_go(deploy):
    """
    If promtool is installed, the unit tests of the alert rules pass.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    command = [promtool, "test", "rules", *(str(deploy / name) for name in UNIT_TESTS)]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr + found.stdout


def test_every_alert_has_its_unit_tests(deploy, alerts):
    """
    For each alert, the unit tests have a time at which it fires and a time at which it does not fire.
    """
    documents = [yaml.safe_load((deploy / name).read_text("utf-8")) for name in UNIT_TESTS]
    seen = {
        (case["alertname"], bool(case["exp_alerts"]))
        for document in documents
        for group in document["tests"]
        for case in group["alert_rule_test"]
    }
    assert seen == {(rule["alert"], is_firing) for rule in alerts for is_firing in (True, False)}


def test_every_alert_links_to_its_section(alerts):
    """
    Each alert has a unique name, a severity, a summary, and a link to its section on the operator's page.
    """
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    sections = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", page, re.MULTILINE)}
    for rule in alerts:
        page_of, _, section = rule["annotations"]["runbook_url"].partition("#")
        assert page_of == "{{ $externalLabels.tickwheel_docs }}operations.html"
        assert section in sections, rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in {"page", "warn"}
        assert f"`{rule['alert']}`" in page
    assert len({rule["alert"] for rule in alerts}) == len(alerts)


def test_the_board_is_in_order(board):
    """
    Panels have unique ids, do not overlap, and have titles and queries.
    """
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["title"]
        assert panel["targets"]


def test_the_board_shows_where_trouble_begins(board):
    """
    Every panel of the board marks takeovers of shards. A panel whose figure has an alert shows the threshold.
    """
    assert [each["name"] for each in board["annotations"]["list"]] == ["Takeovers"]
    with_lines = {}
    for panel in board["panels"]:
        defaults = panel["fieldConfig"]["defaults"]
        if "thresholds" in defaults:
            with_lines[panel["title"]] = [step["value"] for step in defaults["thresholds"]["steps"]]
            is_drawn = panel["type"] == "stat" or defaults["custom"]["thresholdsStyle"]["mode"] == "line"
            assert is_drawn, panel["title"]
    assert with_lines["Lateness"] == [None, 1]
    assert with_lines["Commit time"] == [None, 0.5]
    assert with_lines["Oldest job of each pull queue"] == [None, 300]
    assert len(with_lines) == 11


def test_the_example_for_prometheus(deploy):
    """
    The example configuration for Prometheus loads the rules, and uses the job name that the rules contain.
    """
    document = yaml.safe_load((deploy / "prometheus.yml").read_text("utf-8"))
    assert [each["job_name"] for each in document["scrape_configs"]] == ["tickwheel"]
    assert [Path(name).name for name in document["rule_files"]] == ["alerts.yml"]
    assert document["global"]["external_labels"]["tickwheel_docs"].endswith("/")
