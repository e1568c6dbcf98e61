from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from tickwheel.scheduler import AsyncScheduler, Declared, DeclaredJob, Schedule
from tickwheel.service.bodies import ManifestBody, ManifestOutline, ScheduleItem
from tickwheel.service.documents import JobDocument, Written, job_document
from tickwheel.service.figures import Figures
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import job_key, read_body
from tickwheel.service.list_body import ListBody
from tickwheel.service.options import ServiceOptions
from tickwheel.service.refusals import check_set
from tickwheel.service.replies import document_reply

__all__ = ["PREFIX", "ManifestDocument", "Manifests"]

PREFIX: Final = b"/v1/manifests/"
"""Path prefix before the name of a manifest."""
_BODY: Final = ListBody(ManifestBody, ManifestOutline, ScheduleItem, "jobs")


class DeclaredDocument(Struct, frozen=True):
    """
    The outcome of a manifest's declaration for one job, and the job afterwards (or a cancelled job's last state).

    `dead` means that the job stays a dead letter. `finished` means that the job's rule has no run left. In a dry run,
    `before` is the current job.
    """

    key: str
    outcome: Literal[Written, "finished"]
    job: JobDocument | None
    before: JobDocument | None = None


class ManifestDocument(Struct, frozen=True):
    """
    The outcome of declaring a manifest, which is a named list of recurring jobs.

    `jobs` has first the declared jobs in the order of the request, then the cancelled jobs by key. `superseded` means
    that nothing was done, because a newer revision had been declared. `revision` is the current revision.
    """

    manifest: str
    outcome: Literal["changed", "unchanged", "superseded"]
    revision: int | None
    jobs: list[DeclaredDocument]


class Manifests:
    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions, figures: Figures) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._options = options

    async def declare(self, call: Request) -> Reply:
        """
        Declare a manifest: make its recurring jobs match the list, and cancel its other jobs.

        Unchanged jobs and running attempts continue. An unchanged manifest writes nothing.
        """
        name = job_key(call.raw_path[len(PREFIX) :])
        data = await read_body(call, self._options.batch_bytes_max)
        body = await _BODY.decoded(data, self._options.body_bytes_max)
        for item in body.jobs:
            check_set(item, self._scheduler, self._options.every_min_s)
        if self._options.pending_max is not None and not body.dry_run:
            await self._figures.check_room(self._options.pending_max, len(body.jobs))
        schedules = [Schedule(**item.fields()) for item in body.jobs]
        return document_reply(_document(await self._scheduler.declare(schedules, name, **body.options())))


def _document(answer: Declared) -> ManifestDocument:
    outcome = answer.outcome.value
    return ManifestDocument(answer.manifest, outcome, answer.revision, [_job(job) for job in answer.jobs])  # type: ignore[arg-type]  # one of three outcomes


def _job(job: DeclaredJob) -> DeclaredDocument:
    shown = (None if each is None else job_document(each) for each in (job.job, job.before))
    return DeclaredDocument(job.key, job.outcome.value, *shown)  # type: ignore[arg-type]  # the values are outcomes of writes
