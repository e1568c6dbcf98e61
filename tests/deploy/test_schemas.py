"""
The manifests against the schemas of Kubernetes and of compose files, which know every field and its type.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")


COMPOSE = "-m check_jsonschema --builtin-schema vendor.compose-spec --default-filetype yaml -"


def wrong_for_kubernetes(text):
    """
    Return what is wrong with these documents.
    """
    library = pytest.importorskip("kubernetes_validate", reason="it is not installed: pip install kubernetes-validate")
    try:
        for document in yaml.safe_load_all(text):
            library.validate(document, library.latest_version(), strict=True)
    except library.ValidationError as error:
        return str(error)
    return ""


def wrong_for_compose(text):
    """
    Return the same of a compose file.
    """
    pytest.importorskip("check_jsonschema", reason="it is not installed: pip install check-jsonschema")
    command = [sys.executable, *COMPOSE.split()]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    return answer.stdout if answer.returncode else ""


@pytest.fixture
def wrong(deploy):
    """
    Return what says what is wrong with a manifest, by its name, with some of its text replaced.
    """

    def check(name, old="", new=""):
        text = (deploy / name).read_text("utf-8")
        assert old in text
        judge = {"kubernetes.yaml": wrong_for_kubernetes, "compose.yaml": wrong_for_compose}[name]
        return judge(text.replace(old, new))

    return check


@pytest.mark.parametrize("name", ["kubernetes.yaml", "compose.yaml"])
def test_manifest(wrong, name):
    """
    Its schema finds nothing wrong with it.
    """
    assert wrong(name) == ""


@pytest.mark.parametrize(
    ("name", "old", "new", "field"),
    [
        ("kubernetes.yaml", "replicas: 3", "replicas: three", "replicas"),
        ("kubernetes.yaml", "periodSeconds: 5", "periodSecond: 5", "periodSecond"),
        ("kubernetes.yaml", "maxUnavailable: 1\n  selector", "maxUnavailable: [1]\n  selector", "maxUnavailable"),
        ("compose.yaml", "read_only: true", "read_only: [true]", "read_only"),
        ("compose.yaml", "restart: unless-stopped", "restarts: always", "restarts"),
        ("compose.yaml", "{condition: service_healthy}", "{condition: healthy}", "condition"),
        ("compose.yaml", "cap_drop: [ALL]", "cap_drop: ALL", "cap_drop"),
    ],
)
def test_broken_manifest(wrong, name, old, new, field):
    """
    A value of another type and a field that does not exist are found.
    """
    assert field in wrong(name, old, new)
