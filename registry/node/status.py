"""Status of a node."""

from __future__ import annotations

from registry.api.backend import NodeStatus
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog

from .leadership.role import Stage
from .node import Node


def status(node: Node) -> NodeStatus:
    """Return the current status of the node."""
    progress = node.follower.progress()
    state = node.store.state
    role = node.candidate.role_holder.role
    primary, cannot_lead = node.primary, node.candidate.cannot_lead
    newest = node.snapshots.entries.newest()
    reasons = []
    if node.store.read_only:
        reasons.append(f"the store {node.store.path} is of a former release and is rebuilt from its log")
    if not (node.started or node.following.last_error):
        left = "unknown" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
        reasons.append(f"reading the log: {progress.applied} of {progress.end} records, remaining: {left}")
    reasons += _errors(node)
    if role.refused:
        reasons.append(role.reason)
    return NodeStatus(
        role=role.name,
        epoch=role.epoch if role.stage is Stage.PRIMARY else role.seen,
        applied=state.applied,
        end=max(progress.end, state.applied),
        digest=digest.text(state.digest),
        started=node.readable,
        ready=not reasons,
        reasons=reasons,
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
        start=None if node.starting is None else node.starting.snapshot,
        history_from=node.maintenance.history_from(),
    )


def _errors(node: Node) -> list[str]:
    """Return why the store makes no progress or the embedded log rejects writes; empty if all is well."""
    own = node.log.last_error if isinstance(node.log, EmbeddedLog) else ""
    return [each for each in (node.following.last_error, own) if each]
