"""
`tickwheel schedule apply`, and imports that declare the jobs of a file as a manifest.
"""

from __future__ import annotations

import json

import pytest

from tickwheel.cli.exits import ExitCode


def line(key, **fields):
    """
    Return the line of a file that describes the job *key*.
    """
    return json.dumps({"key": key, "every": "1h", "target": "log"} | fields)


def keys(run, *options):
    """
    Return the keys that `tickwheel list` prints.
    """
    return [json.loads(each)["key"] for each in run("list", "--json", *options).stdout.splitlines()]


@pytest.mark.parametrize("form", ["lines", "list", "table"])
def test_apply(run, tmp_path, form):
    """
    A file in any of the formats can be applied. If the same file is applied again, nothing changes.
    """

    def write(*rows):
        path = tmp_path / ("jobs.csv" if form == "table" else "jobs.json")
        if form == "table":
            path.write_text("key,every,target\n" + "".join(f"{key},{every},log\n" for key, every in rows))
            return path.name
        lines = [line(key, every=every) for key, every in rows]
        path.write_text(f" [{','.join(lines)}]\n" if form == "list" else "\n".join(lines))
        return path.name

    def apply(*rows, more=()):
        answer = run("schedule", "apply", write(*rows), "--manifest", "billing", *more)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    first = apply(("a", "1h"), ("b", "2h"))
    assert first == ["+ a: every 3600 s", "+ b: every 7200 s", "billing: 2 created"]
    assert apply(("b", "120m"), ("a", "PT1H")) == ["billing: 2 unchanged"]
    tried = apply(("b", "3h"), ("c", "5s"), more=["--dry-run"])
    assert tried[0] == "~ b: every 10800 s"
    assert tried[1] == "    rule: every 7200 s -> every 10800 s"
    assert tried[2].startswith("    due: ")
    assert tried[3:] == [
        "+ c: every 5 s",
        "- a: every 3600 s",
        "billing: 1 changed, 1 created, 1 cancelled",
    ]
    assert keys(run) == ["a", "b"]
    done = apply(("b", "3h"), ("c", "5s"))
    assert (done[0], done[-1]) == (tried[0], tried[-1])
    assert keys(run, "--manifest", "billing") == ["b", "c"]
    assert keys(run, "--manifest", "other") == []
    assert run("schedule", "list", "--manifest", "billing").stdout.count("\n") == 2
    assert "manifest\tbilling" in run("get", "c").stdout
    assert json.loads(run("get", "c", "--json").stdout)["manifest"] == "billing"


def test_revisions(run):
    """
    If the revision of a file is older than the current one, the file is refused, unless it is declared as a rollback.

    With --json, the output is the document of the API.
    """
    apply = ("schedule", "apply", "-", "--manifest", "m")
    assert run(*apply, "--revision", "7", stdin=line("new")).returncode == 0
    late = run(*apply, "--revision", "6", stdin=line("old"))
    assert (late.returncode, late.stdout) == (0, "superseded: revision 7 of m was declared; see --rollback\n")
    document = json.loads(run(*apply, "--revision", "6", "--rollback", "--json", stdin=line("old")).stdout)
    assert (document["manifest"], document["outcome"], document["revision"]) == ("m", "changed", 6)
    assert [(job["key"], job["outcome"]) for job in document["jobs"]] == [("old", "created"), ("new", "cancelled")]
    assert document["jobs"][0]["job"]["manifest"] == "m"
    assert keys(run) == ["old"]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", [], "allow_empty=True"),
        ("[]", [], "allow_empty=True"),
        (line("a") + "\n" + line("a"), [], "twice"),
        (line("a") + "\n" + json.dumps({"key": "b", "delay": 5, "target": "log"}), [], "line 2: every"),
        (line("a", mode="keep"), [], "line 1: mode"),
        (line("a", manifest="other"), [], "line 1: manifest"),
        (line("a", every="?"), [], "every"),
        ("[1]", [], "job 1"),
        ("[{", [], "JSON"),
        (line("a"), ["--revision", "-1"], "revision"),
        (line("a"), ["--rollback"], "rollback"),
        (line("taken"), [], "'other'"),
    ],
)
def test_refused(run, text, options, words):
    """
    A file that is not a valid manifest is refused, and nothing is changed.
    """
    run("schedule", "apply", "-", "--manifest", "other", stdin=line("taken"))
    answer = run("schedule", "apply", "-", "--manifest", "m", *options, stdin=text)
    assert answer.returncode == ExitCode.USAGE
    assert words in answer.stderr
    assert keys(run) == ["taken"]


def test_an_empty_file(run):
    """
    An empty file cancels all jobs of the manifest, but only with an option that allows this.
    """
    apply = ("schedule", "apply", "-", "--manifest", "m")
    run(*apply, stdin=line("a"))
    assert run(*apply, "--allow-empty", stdin="").stdout == "- a: every 3600 s\nm: 1 cancelled\n"
    assert keys(run) == []


def test_an_export_is_a_manifest(run):
    """
    Each line of an export contains the name of the job's manifest, and can be declared or imported again.
    """
    run("schedule", "apply", "-", "--manifest", "m", stdin=line("a", payload=[1]) + "\n" + line("b"))
    lines = run("export").stdout
    assert [json.loads(each)["manifest"] for each in lines.splitlines()] == ["m", "m"]
    again = run("schedule", "apply", "-", "--manifest", "m", stdin=lines)
    assert again.stdout == "m: 2 unchanged\n"
    run("cancel", "--prefix", "")
    assert run("import", "jsonl", "-", stdin=lines).returncode == 0
    assert keys(run, "--manifest", "m") == ["a", "b"]


@pytest.mark.parametrize("kind", ["crontab", "jsonl", "csv"])
def test_an_import_that_declares(run, kind):
    """
    If a file is imported again as a manifest, jobs whose lines were removed from the file are cancelled.
    """
    texts = {
        "crontab": ["0 5 * * * one\n0 6 * * * two\n", "0 6 * * * two\n"],
        "jsonl": [line("one") + "\n" + line("two"), line("two")],
        "csv": ["key,every,target\none,1h,log\ntwo,1h,log\n", "key,every,target\ntwo,1h,log\n"],
    }[kind]
    own = ["import", kind, "-"]
    assert run(*own, stdin=texts[0]).returncode == 0
    first = run(*own, "--manifest", "tab", stdin=texts[0])
    assert first.stdout == "tab: 2 unchanged\n", first.stderr
    run("set", "other", "--every", "5", "--target", "log")
    second = run(*own, "--manifest", "tab", stdin=texts[1])
    assert second.stdout.splitlines()[-1] == "tab: 1 unchanged, 1 cancelled", second.stderr
    assert len(keys(run, "--manifest", "tab")) == 1
    assert "other" in keys(run)
    assert run(*own, "--manifest", "tab", stdin="" if kind != "csv" else "key,every,target\n").returncode == 2
