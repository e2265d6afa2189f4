"""Status of a node."""

from __future__ import annotations

from registry.api.backend import NodeStatus
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog

from .leadership.role import Stage
from .node import Node
from .readiness import Situation, readiness
from .replication.follower import Progress


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
        quarantined=node.maintenance.quarantined(),
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
    if not node.started:
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
