"""
Middleware for views that pass a user's rules and times to the scheduler.
"""

from __future__ import annotations

from typing import Any

from django.http import JsonResponse
from django.utils.deprecation import MiddlewareMixin

from tickwheel.integrations._refused import STATUS, document_of

__all__ = ["RuleMiddleware"]


class RuleMiddleware(MiddlewareMixin):
    """
    Answers 422, with the reason as JSON, if a view raises an error because a rule or time cannot be read.
    """

    def process_exception(self, _request: Any, error: Exception) -> JsonResponse | None:
        """
        Return the 422 answer for a rule or time that cannot be read, or None for any other error.
        """
        document = document_of(error)
        return None if document is None else JsonResponse(document, status=STATUS)
