"""
Internal: published facts of some of Twitter's cache clusters, to generate caches like them.

From J. Yang, Y. Yue and K. V. Rashmi, "A large scale analysis of hundreds of in-memory cache clusters at Twitter", OSDI
2020; the table `stat/2020Mar.md` of github.com/twitter/cache-trace, CC BY 4.0. The chosen clusters have many writes.
They differ in their TTLs (one, several, or short ones) and in their shares of deletes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CLUSTERS", "Cluster"]

HOUR: Final = 3_600
DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    The published facts of one cache cluster.

    *rate* is the number of requests per second. *writes* is the fraction of requests that start a TTL (set or add), and
    *deletes* the fraction that delete. *ttls* has each TTL in seconds, and its share. *zipf* is the skew of the keys:
    the k-th key is 1 / k ** zipf times as frequent as the first.
    """

    rate: float
    writes: float
    deletes: float
    ttls: dict[int, float]
    zipf: float


CLUSTERS: Final = {
    "cluster4": Cluster(
        5_260, 0.07, 0.0, {60: 0.39, 300: 0.24, HOUR: 0.13, 600: 0.12, 4 * HOUR: 0.09, DAY: 0.03}, 1.1004
    ),
    "cluster14": Cluster(5_810, 0.13, 0.22, {DAY: 1.0}, 1.2959),
    "cluster23": Cluster(8_690, 0.31, 0.02, {120: 0.93, 2_700: 0.05, 5: 0.03}, 0.274),
    "cluster37": Cluster(4_150, 0.37, 0.0, {20: 0.91, 300: 0.06, 2 * HOUR: 0.02, 600: 0.01}, 0.4251),
    "cluster52": Cluster(24_250, 0.04, 0.0, {DAY: 0.65, 14 * DAY: 0.27, 12 * HOUR: 0.07}, 1.2117),
}
