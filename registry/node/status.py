"""The status of a node, and when it is ready.

A node that has read its log once stays ready while only the log is missing, because it still answers what it
holds. It is not ready if another node reaches the log meanwhile: requests go there. A node that has not
reached the log since its start is not ready either, so that a rolling update with a wrong address or password
of Kafka stops at its first node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from registry.api.backend import NodeReport, NodeStatus
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog

from .leadership.role import Stage
from .node import Node
from .replication.follower import Progress

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


def status(node: Node) -> NodeStatus:
    """Return the current status of the node."""
    progress = node.follower.progress()
    state = node.store.state
    role = node.candidate.role_holder.role
    primary, cannot_lead = node.primary, node.candidate.cannot_lead
    newest = node.snapshots.entries.newest()
    ready = readiness(_situation(node, progress))
    return NodeStatus(
        role=role.name,
        epoch=role.epoch if role.stage is Stage.PRIMARY else role.seen,
        applied=state.applied,
        end=max(progress.end, state.applied),
        digest=digest.text(state.digest),
        started=node.readable,
        ready=not ready.traffic,
        reasons=ready.traffic,
        ready_for_writes=not ready.writes,
        reasons_for_writes=ready.writes,
        records_per_s=progress.records_per_s,
        eta_s=progress.eta_s,
        quarantined=node.maintenance.quarantined_count(),
        log=node.log.identity,
        node=node.identity.node,
        primary="" if primary is None else primary.url,
        newest_snapshot="" if newest is None else newest.id,
        election=role.reason and (cannot_lead or role.reason),
        cannot_lead=cannot_lead,
        metadata_encoder=node.encoder_error(),
        peer_problems=node.peer_problems(),
        start=None if node.starting is None else node.starting.snapshot,
        invalid_files=[] if node.files is None else node.files.problems(),
        history_from=node.maintenance.history_from(),
    )


def _situation(node: Node, progress: Progress) -> Situation:
    role, following = node.candidate.role_holder.role, node.following
    starting = ""
    if not node.is_started:
        left = "unknown" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
        starting = f"reading the log: {progress.applied} of {progress.end} records, remaining: {left}"
    store = following.store_error or following.foreign
    if node.store.read_only:
        store = f"the store {node.store.path} is of a former release and is rebuilt from its log"
    log_error = "" if following.foreign else following.log_error
    better = node.node_with_log() if log_error else ""
    return Situation(
        starting=starting,
        store=store,
        log=log_error,
        better=better and f"{log_error}; {better} reaches the log",
        rejected=role.reason if role.refused else "",
        no_writes=_no_writes(node),
    )


def _no_writes(node: Node) -> str:
    """Return why the embedded log takes no records, or no primary can be reached; empty if all is well."""
    if isinstance(node.log, EmbeddedLog):
        return node.log.last_error
    return node.candidate.role_holder.role.reason or node.primary_unreachable()
