"""
A real Prometheus with our alert rules.

The times in the rules are shortened.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import yaml
from processes import PATIENCE_S, find, free_port, wait_until_up

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCS = "https://docs.example/"
EVALUATIONS = "tests:evaluations"
SCRAPED = "3s"
"""Interval and timeout of a scrape. They exceed the time in which a service notices that its store is silent."""
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
WINDOW = re.compile(r"\[(\d+)([smhd])\]")
AGE = re.compile(r"(time\(\) - [^>]*) > (\d+)\b")


def seconds(duration):
    """
    Return the seconds of a Prometheus *duration* with one unit, such as 5m.
    """
    return int(duration[:-1]) * SECONDS[duration[-1]]


def shortened(rules, factor):
    """
    Return the alert *rules*, changed for a Prometheus that evaluates them *factor* times as often.

    All lengths of time in the rules are divided by *factor*. A recording rule is added, whose samples show the
    evaluations.
    """
    document = yaml.safe_load(rules)
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = WINDOW.sub(lambda found: f"[{in_ms(''.join(found.groups()), factor)}]", rule["expr"])
            rule["expr"] = AGE.sub(lambda found: f"{found[1]} > {int(found[2]) / factor:.3f}", rule["expr"])
            if "for" in rule:
                rule["for"] = in_ms(rule["for"], factor)
        group["rules"].append({"record": EVALUATIONS, "expr": "vector(1)"})
    return document


def in_ms(duration, factor):
    """
    Return *duration* divided by *factor*, in Prometheus' notation.
    """
    return f"{round(seconds(duration) * 1000 / factor)}ms"


class Prometheus:
    """
    A server in a folder, on a free port of the loopback. Its targets are in a file that can be rewritten.

    Attributes:
        factor: The number by which the times of our rules are divided.
        interval_s: Seconds from one evaluation to the next.
    """

    def __init__(self, folder, factor):
        self.folder, self.factor = folder, factor
        self._port = free_port()
        self._process = None
        self._lock, self._targets = threading.Lock(), {}
        rules = (DEPLOY / "alerts.yml").read_text("utf-8")
        (folder / "alerts.yml").write_text(json.dumps(shortened(rules, factor)))
        shipped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
        (scrape,) = shipped["scrape_configs"]
        self.interval_s = seconds(scrape["scrape_interval"]) / factor
        interval = in_ms(scrape["scrape_interval"], factor)
        found_by = {"files": [str(folder / "targets.json")], "refresh_interval": "1s"}
        times = {"scrape_interval": SCRAPED, "scrape_timeout": SCRAPED, "evaluation_interval": interval}
        settings = {
            "global": {**times, "external_labels": {"tickwheel_docs": DOCS}},
            "scrape_configs": [{"job_name": scrape["job_name"], "file_sd_configs": [found_by]}],
            "rule_files": [str(folder / "alerts.yml")],
        }
        (folder / "prometheus.yml").write_text(json.dumps(settings))

    def start(self):
        """
        Start the server, and wait until it answers.
        """
        own = [f"--config.file={self.folder / 'prometheus.yml'}", f"--storage.tsdb.path={self.folder / 'data'}"]
        own += [f"--web.listen-address=127.0.0.1:{self._port}", f"--query.lookback-delta={in_ms('5m', self.factor)}"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen([find("prometheus"), *own], stdout=log, stderr=log, cwd=self.folder)
        wait_until_up(self._process, self.folder / "log", self._is_ready)

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None

    def scrape(self, job, ports):
        """
        Scrape exactly the services at *ports* of the loopback, under the job name *job*.

        Return as soon as Prometheus scrapes them.
        """
        wanted = {f"127.0.0.1:{port}" for port in ports}
        with self._lock:
            self._targets[job] = {"labels": {"job": job}, "targets": sorted(wanted)}
            self._tell()
        give_up = time.monotonic() + PATIENCE_S
        while self._scraped(job) != wanted:
            assert time.monotonic() < give_up, f"{job}: {self._scraped(job)} are scraped, and not {wanted}"
            time.sleep(0.1)  # no signal reports that Prometheus has read the file

    def forget_all(self):
        """
        Stop scraping.
        """
        with self._lock:
            self._targets.clear()
            self._tell()

    def _scraped(self, job):
        targets = self._ask("targets", state="active")["activeTargets"]
        return {each["labels"]["instance"] for each in targets if each["labels"]["job"] == job}

    def _tell(self):
        new = self.folder / "targets.new"
        new.write_text(json.dumps([each for each in self._targets.values() if each["targets"]]))
        new.rename(self.folder / "targets.json")

    def alerts(self):
        """
        Return the alerts that are pending or firing.
        """
        return self._ask("alerts")["alerts"]

    def samples(self, selector):
        """
        Return the series of the last hour that match *selector*.

        Each series has its labels, and its samples as pairs of an instant and a value.
        """
        answer = self._ask("query", query=f"{selector}[1h]")
        return [(each["metric"], each["values"]) for each in answer["result"]]

    def value(self, expression):
        """
        Return the value of *expression*, or None.

        The expression must have at most one value.
        """
        found = self._ask("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else None

    def evaluations(self):
        """
        Return the instants at which the rules were evaluated.
        """
        found = self.samples(EVALUATIONS)
        return [at for at, _ in found[0][1]] if found else []

    def _ask(self, path, **fields):
        query = urllib.parse.urlencode(fields)
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def _is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
