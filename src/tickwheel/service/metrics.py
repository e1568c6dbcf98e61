"""
The figures for Prometheus, as `tickwheel.observe.prometheus` names them.
"""

from __future__ import annotations

from tickwheel.observe.prometheus import exposition
from tickwheel.service.denials import Denials
from tickwheel.service.figures import Figures
from tickwheel.service.http import Reply, Request

__all__ = ["Metrics"]


class Metrics:
    """
    The page of figures in Prometheus' text format.
    """

    def __init__(self, figures: Figures, denials: Denials) -> None:
        """
        Read *figures* and *denials*.
        """
        self._denials = denials
        self._figures = figures

    async def get(self, call: Request) -> Reply:
        """
        Return the figures in Prometheus' text format, or as OpenMetrics with traces as exemplars, as Accept asks for.
        """
        stats = await self._figures.scheduler_stats() | {"denials": self._denials.counts()}
        kind, text = exposition(stats, call.header(b"accept") or "")
        return Reply(200, kind.encode(), text)
