"""
The pages of the admin: jobs, filtered by key and state, actions to cancel, run and replay them, and their history.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone

from tickwheel.errors import TickwheelError
from tickwheel.integrations.django import jobs
from tickwheel.integrations.django._app.models import Job
from tickwheel.jobs.rule_text import rule_text
from tickwheel.scheduler import HistoryRecord, Page, State
from tickwheel.scheduler import Job as StoredJob

__all__ = ["JobAdmin"]

_PAGE: Final = 100
_SHOWN_MAX: Final = 200
_VERBS: Final = {"cancel": "delete", "run_now": "change", "replay": "change"}
"""The operations on a job, and the permission for each."""


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    change_list_template = "tickwheel_jobs.html"
    actions: ClassVar[list[str]] = []

    def has_add_permission(self, request: Any) -> bool:
        # Code sets a job, with a payload that its handler understands.
        return False

    def get_urls(self) -> list[Any]:
        return [
            path("", self.admin_site.admin_view(self.changelist_view), name="tickwheel_job_changelist"),
            path("history/", self.admin_site.admin_view(self.history_of_job), name="tickwheel_job_history"),
        ]

    def changelist_view(self, request: Any, extra_context: dict[str, object] | None = None) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._act(request)
        asked = {name: request.GET.get(name, "") for name in ("q", "state", "cursor")}
        page = Page(())
        try:
            page = jobs.scheduler.list(
                asked["q"], state=asked["state"] or None, cursor=asked["cursor"] or None, limit=_PAGE
            )
        except TickwheelError as error:
            messages.error(request, str(error))
        further = {**asked, "cursor": page.cursor}
        context = {
            **self.admin_site.each_context(request),
            "title": "Jobs",
            "opts": self.opts,
            "asked": asked,
            "states": [state.value for state in State],
            "rows": [_row(job) for job in page.jobs],
            "next": urlencode(further) if page.cursor else None,
            "verbs": [(verb, verb.replace("_", " ")) for verb, needed in _VERBS.items() if self._may(request, needed)],
            **(extra_context or {}),
        }
        return TemplateResponse(request, self.change_list_template, context)

    def history_of_job(self, request: Any) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        key, before = request.GET.get("key", ""), request.GET.get("before", "")
        records: Sequence[HistoryRecord] = ()
        job = None
        try:
            job = jobs.scheduler.get(key)
            records = jobs.scheduler.history(key, before=int(before) if before.isdecimal() else None, limit=_PAGE)
        except TickwheelError as error:
            messages.error(request, str(error))
        older = urlencode({"key": key, "before": records[-1].number}) if len(records) == _PAGE else None
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {key}",
            "opts": self.opts,
            "row": None if job is None else _row(job),
            "records": [{"record": each, "at": _local(each.at), "late": _lateness(each)} for each in records],
            "older": older,
        }
        return TemplateResponse(request, "tickwheel_history.html", context)

    def _act(self, request: Any) -> HttpResponseRedirect:
        verb, keys = request.POST.get("verb", ""), request.POST.getlist("key")
        if verb not in _VERBS or not self._may(request, _VERBS[verb]):
            raise PermissionDenied
        for key in keys[:_PAGE]:
            try:
                outcome = getattr(jobs.scheduler, verb)(key).outcome.value.replace("_", " ")
            except TickwheelError as error:
                messages.error(request, f"refused for {key}: {error}")
                continue
            self.log_change(request, Job(key=key), f"{verb}: {outcome}")
            messages.info(request, f"{outcome}: {key}")  # Django capitalises the first letter, not the key's
        return HttpResponseRedirect(request.get_full_path())

    def _may(self, request: Any, needed: str) -> bool:
        is_allowed: bool = getattr(self, f"has_{needed}_permission")(request)
        return is_allowed


def _row(job: StoredJob) -> dict[str, object]:
    payload = job.payload.decode("utf-8", "replace")
    return {
        "job": job,
        "due": _local(job.due_at),
        "rule": "" if job.recurrence is None else rule_text(job.recurrence, _text, explains_cron=True),
        "payload": payload if len(payload) <= _SHOWN_MAX else f"{payload[:_SHOWN_MAX]}…",
        "history": urlencode({"key": job.key}),
    }


def _local(ms: int) -> datetime:
    shown: datetime = timezone.localtime(datetime.fromtimestamp(ms / 1000, UTC))
    return shown


def _text(ms: int) -> str:
    return _local(ms).strftime("%Y-%m-%d %H:%M:%S %Z")


def _lateness(record: HistoryRecord) -> str:
    return "" if record.begun_at is None else f"{(record.begun_at - record.due_at) / 1000:.3f} s"
