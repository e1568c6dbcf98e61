"""
A long outage that every target must survive.
"""

from __future__ import annotations

import pytest


class LongOutage:
    """
    A part of a `TargetSuite`.

    Ten jobs become due in one second while the receiver is unreachable for 25 seconds.
    """

    @pytest.mark.slow
    def test_long_outage(self):
        """
        During the outage no attempt is used, and no message arrives twice.

        All messages have arrived soon after the receiver is reachable again.
        """
        self.outage(25.0, 250, soon_s=3.0)
