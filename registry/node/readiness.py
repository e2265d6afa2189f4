"""The two kinds of readiness of a node: for traffic, and for writes.

A node that has read its log once stays ready while only the log is missing, because it still answers what it
holds. It is not ready if another node reaches the log meanwhile: requests go there. A node that has not
reached the log since its start is not ready either, so that a rolling update with a wrong address or password
of Kafka stops at its first node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from registry.api.backend import NodeReport

# Nodes notice within this time, in seconds, that a log has become unavailable to all of them.
NOTICED_S: Final = 10.0
# A report that is older than this, in seconds, says nothing about the log now.
RECENT_S: Final = 10.0


class Situation(NamedTuple):
    """The facts that decide if a node is ready; texts are reasons, and empty without any."""

    starting: str = ""  # the log has not been read to its end since the start
    store: str = ""  # the store cannot be written, or is not the log's
    log: str = ""  # the log cannot be reached
    better: str = ""  # the log cannot be reached from here, but from another node
    rejected: str = ""  # the election rejects this node
    no_writes: str = ""  # the log takes no records, or there is no primary within reach


class Readiness(NamedTuple):
    """Why a node should get no requests, and why it would fail writes; empty if it is ready."""

    traffic: list[str]
    writes: list[str]


def readiness(situation: Situation) -> Readiness:
    """Return both kinds of readiness; what is not ready for traffic is not ready for writes either."""
    at = situation
    unserved = at.log if at.starting else at.better
    traffic = [each for each in ("" if at.log else at.starting, at.store, unserved, at.rejected) if each]
    more = ("" if unserved else at.log, at.no_writes)
    return Readiness(traffic, [*traffic, *(each for each in more if each and each not in traffic)])


def reaches_log(others: Iterable[NodeReport], missing_s: float) -> str:
    """Return the URL of another node that reaches the log, which this node has missed for ``missing_s``.

    Empty if no recent report says so. A report counts only if it was made when the other node would have
    noticed that nobody reaches the log.
    """
    return next(
        (
            each.url
            for each in others
            if each.ready and not each.log_error
            if each.age_s <= min(RECENT_S, missing_s - NOTICED_S)
        ),
        "",
    )
