"""
The manifests are checked against the schemas of Kubernetes and of compose files.

These schemas know every field and its type.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")


SCHEMAS = "kubernetes-json-schema/v{}-local-strict"
"""The folder in the package kubernetes-validate that contains the schemas."""
COMPOSE = "-m check_jsonschema --builtin-schema vendor.compose-spec --default-filetype yaml -"


def wrong_for_kubernetes(text):
    """
    Return the faults in the Kubernetes documents of *text*.
    """
    library = pytest.importorskip("kubernetes_validate", reason="it is not installed: pip install kubernetes-validate")
    try:
        for document in yaml.safe_load_all(text):
            library.validate(document, library.latest_version(), strict=True)
    except library.ValidationError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def kubeconform(tmp_path_factory):
    """
    Return a function that checks YAML text with kubeconform, and returns the output of kubeconform.

    It uses the schemas of kubernetes-validate, so it needs no network.
    """
    program = shutil.which("kubeconform", path=str(Path(sys.executable).parent)) or shutil.which("kubeconform")
    if program is None:
        pytest.skip("kubeconform is not installed: make test installs it where there is Go")
    library = pytest.importorskip("kubernetes_validate", reason="it is not installed: pip install kubernetes-validate")
    folder = tmp_path_factory.mktemp("schemas")
    for schema in Path(library.__file__).parent.joinpath(SCHEMAS.format(library.latest_version())).glob("*.json"):
        text = schema.read_text("utf-8").replace('"$id":', '"was":')  # other schemas would be fetched from it
        folder.joinpath(schema.name).write_text(text.replace('"/api/_definitions.json', '"_definitions.json'), "utf-8")

    def check(text):
        where = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        command = [program, "-strict", "-summary", "-schema-location", where, "-"]
        answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        return answer.stdout + answer.stderr

    return check


def wrong_for_compose(text):
    """
    Return the faults in the compose file *text*.
    """
    pytest.importorskip("check_jsonschema", reason="it is not installed: pip install check-jsonschema")
    command = [sys.executable, *COMPOSE.split()]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    return answer.stdout if answer.returncode else ""


@pytest.fixture
def wrong(deploy):
    """
    Return a function that returns the faults in a manifest, after an optional replacement of some text.
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
    The schema finds no fault in the manifest.
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
    If a manifest has a value of the wrong type or an unknown field, the schema finds this fault.
    """
    assert field in wrong(name, old, new)


def test_kubeconform(deploy, kubeconform):
    """
    The validator kubeconform accepts our manifests, including each kind of document, and rejects faulty ones.
    """
    text = (deploy / "kubernetes.yaml").read_text("utf-8")
    assert "Valid: 3, Invalid: 0, Errors: 0, Skipped: 0" in kubeconform(text)
    for old, new, field in (
        ("replicas: 3", "replicas: three", "/spec/replicas"),
        ("periodSeconds: 5", "periodSecond: 5", "periodSecond"),
        ("maxUnavailable: 1\n  selector", "maxUnavailable: [1]\n  selector", "/spec/maxUnavailable"),
    ):
        assert old in text
        found = kubeconform(text.replace(old, new))
        assert "Invalid: 1," in found
        assert field in found
