"""
The service, the command line and the client show every field that a store keeps for a job.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace

import msgspec
import pytest

from tickwheel.cli import documents as command_line
from tickwheel.cli.interchange import exported, request_of
from tickwheel.jobs import columns, model
from tickwheel.jobs.requests import SetRequest, set_write
from tickwheel.remote import _wire
from tickwheel.service.documents import JobDocument, job_document
from tickwheel.testing.store_suite._columns import jobs_of_their_own

NOW = 1_800_000_000_000
RULE = '{"anchor_at":1,"every_ms":5000,"jitter_ms":0,"misfire":"once"}'
OWN = {
    **dict(jobs_of_their_own(NOW)),
    "manifest": model.Job("manifest", 3, NOW, recurrence=RULE, manifest="billing"),
    "state": model.Job("state", 3, NOW, state=model.State.DEAD),
    "pause": model.Job("pause", 3, NOW, pause=model.Pause(NOW, "ops", "why", "handler:h")),
    **{name: replace(model.Job(name, 3, NOW), **{name: True}) for name in columns.UNSTORED},
}
TAKEN = {field.name for field in fields(SetRequest)} & {*columns.NAMES} - {"key"} | {"expires_at"}
"""Columns of a job that a request can set and that an export contains."""


def test_a_document_has_every_field():
    """
    The JSON document of a job has exactly the fields of `Job`, and this file has an example for each field.
    """
    names = {field.name for field in fields(model.Job)}
    assert set(JobDocument.__struct_fields__) == names
    assert set(OWN) - {"plain"} == names - {"key", "generation", "due_at"}


@pytest.mark.parametrize("name", OWN)
def test_each_column_of_a_document(name):
    """
    The service and the command line show the same JSON document for a job.

    The client makes the same job from this document.
    """
    job = OWN[name]
    text = msgspec.json.encode(job_document(job))
    assert json.loads(text) == json.loads(json.dumps(command_line.job_document(job)))
    assert _wire.job_of(json.loads(text)) == job


@pytest.mark.parametrize("name", sorted({"plain", *TAKEN}))
def test_each_column_of_an_export(name):
    """
    If a job is exported and imported again, all its columns have the same values.
    """
    job = OWN[name]
    line = json.loads(json.dumps(exported(job)))
    again = set_write(request_of(line), NOW - 1_000, lambda *_: model.USUAL_RETRY).job
    assert {each: getattr(again, each) for each in TAKEN} == {each: getattr(job, each) for each in TAKEN}


def test_every_stored_field_of_a_request_is_exported():
    """
    An export contains all fields of a request that are stored in columns of the same name.
    """
    names = {field.name for field in fields(SetRequest)} & {*columns.NAMES}
    for name in names:
        assert name in exported(OWN.get(name, OWN["plain"])), name
