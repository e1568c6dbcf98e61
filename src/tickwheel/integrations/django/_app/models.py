"""
The model behind the page of the admin. It has no table: jobs are in the store.
"""

from __future__ import annotations

from typing import Any

from django.db import models

__all__ = ["Job"]


class _NoRows(models.Manager):
    # a manager that finds no rows, so that `dumpdata` does not look for a table

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Job(models.Model):
    key = models.CharField(max_length=512, primary_key=True)

    objects = _NoRows()

    class Meta:
        # only the permissions are in the database
        managed = False
        base_manager_name = "objects"
        default_permissions = ("view", "change", "delete")

    def __str__(self) -> str:
        return str(self.key)
