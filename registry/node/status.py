"""Status of a node, and metrics of all processes of its host."""

from __future__ import annotations

from registry.api.backend import NodeStatus
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog
from registry.observe.metrics import Gauge

from .leadership.role import Stage
from .node import Node

_AGE = "Seconds since the Kafka group last confirmed this node's membership"
_GAP = "Longest pause between two such confirmations in the last one to two minutes"


def status(node: Node) -> NodeStatus:
    """Return the current status of the node."""
    progress = node.follower.progress()
    state = node.store.state
    role = node.candidate.role_holder.role
    primary = node.primary
    newest = node.snapshots.entries.newest()
    reasons = []
    if not node.started:
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
        started=node.started,
        ready=not reasons,
        reasons=reasons,
        records_per_s=progress.records_per_s,
        eta_s=progress.eta_s,
        quarantined=node.maintenance.quarantined(),
        log=node.log.identity,
        node=node.identity.node,
        primary="" if primary is None else primary.url,
        newest_snapshot="" if newest is None else newest.id,
        election=role.reason and (node.log.fencing.unsafe or role.reason),
        metadata_encoder=node.encoder_error(),
        start=None if node.starting is None else node.starting.snapshot,
    )


def _errors(node: Node) -> list[str]:
    """Return why the store makes no progress or the embedded log rejects writes; empty if all is well."""
    own = node.log.last_error if isinstance(node.log, EmbeddedLog) else ""
    return [each for each in (node.following.last_error, own) if each]


def _lags_s(node: Node) -> dict[str, float]:
    """Return the recent lag of each event loop in seconds; all readers count as one."""
    lags = {"node": node.pulse.lag_s(), "readers": node.processes.total().lag_s}
    return lags if node.standalone else {**lags, "election": node.candidate.election_thread.pulse.lag_s()}


def metrics(node: Node, audit_lost: int) -> bytes:
    """Return the metrics of all processes of the host in Prometheus' text format.

    ``audit_lost``: number of audit entries that this process has lost.
    """
    state, store, writer = status(node), node.store.stat(), node.writer.stat()
    total = node.processes.total()
    gauges = [
        Gauge("registrar_log_end_offset", "Offset of the log's next record", state.end),
        Gauge("registrar_applied_offset", "Offset up to which the store holds the log", state.applied),
        Gauge("registrar_epoch", "The newest epoch in the applied log", state.epoch),
        Gauge("registrar_ready", "1 if the node is ready", float(state.ready)),
        Gauge(
            "registrar_quarantined_records",
            "Records that are quarantined because they cannot be read",
            state.quarantined,
        ),
        Gauge("registrar_store_rows", "Rows in the store", store.rows),
        Gauge("registrar_store_bytes", "Bytes used by the store", store.bytes_used),
        Gauge("registrar_store_map_bytes", "Bytes the store may use", store.map_bytes),
        Gauge("registrar_writes_waiting", "Commands that wait for the writer", writer.waiting),
        Gauge("registrar_writer_batches", "Batches decided", writer.batches, counter=True),
        Gauge("registrar_writer_commands", "Commands decided", writer.commands, counter=True),
        Gauge("registrar_writer_records", "Records appended", writer.records, counter=True),
        Gauge(
            "registrar_schemas_registered", "Versions registered by this node", writer.versions, counter=True
        ),
        Gauge(
            "registrar_audit_lost",
            "Audit entries that could not be written",
            total.audit_lost + audit_lost,
            counter=True,
        ),
        Gauge(
            "kafka_schema_registry_registered_count",
            "Versions that are not soft-deleted",
            node.maintenance.versions(),
        ),
        Gauge(
            "kafka_schema_registry_master_slave_role",
            "1 on the primary",
            float(state.role == "primary"),
        ),
    ]
    gauges += [
        Gauge(
            "registrar_event_loop_lag_seconds",
            "Longest delay of a scheduled callback on the event loop in the last one to two minutes",
            lag_s,
            labels={"loop": loop},
        )
        for loop, lag_s in _lags_s(node).items()
    ]
    if node.candidate.heartbeats.age_s():
        gauges += [
            Gauge("registrar_heartbeat_age_seconds", _AGE, node.candidate.heartbeats.age_s()),
            Gauge("registrar_heartbeat_gap_seconds", _GAP, node.candidate.heartbeats.longest_s()),
        ]
    gauges += node.snapshots.entries.gauges()
    if node.certificates is not None:
        gauges += node.certificates.gauges()
    gauges += [
        Gauge("registrar_restarts", "Processes restarted", count, counter=True, labels={"process": kind})
        for kind, count in node.restarts.items()
    ]
    from registry.observe.printing import text  # noqa: PLC0415 (importing its library would slow down the start)

    return text(total, gauges)
