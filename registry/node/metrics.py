"""Metrics of all processes of a host, collected when they are asked for."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping

from registry import VERSION
from registry.base.observe.metric_table import CONFLUENT_TYPES
from registry.base.observe.metrics import Sample, Tally
from registry.domain.schemas import FORMATS

from .inventory import DELETED, LIVE, Stock
from .node import Node
from .status import status

_ROLES = ("primary", "secondary", "following")
_STATES = (LIVE, DELETED)


def samples_of_processes() -> list[Sample]:
    """Return the samples of the host's processes; reads files, so it is called in a thread."""
    from registry.base.observe import prometheus  # noqa: PLC0415 (its library would slow down the start)

    return [*prometheus.samples(os.getppid())]


def metrics(node: Node, audit_lost: int, of_processes: Iterable[Sample]) -> bytes:
    """Return the metrics in Prometheus' text format.

    ``audit_lost``: number of audit entries that this process has lost. ``of_processes``: see
    :func:`samples_of_processes`, which has also imported what this function needs.
    """
    from registry.base.observe import prometheus  # noqa: PLC0415 (as above)

    total, stock = node.processes.total(), node.maintenance.inventory.stock
    samples = [
        *_of_node(node), *_of_work(node, total), *_of_search(node), *_aliases(node, total),
        *(() if stock is None else (*_of_stock(stock), *_of_ids(stock), *_aliases_of_stock(stock))),
        *node.snapshots.entries.samples(), *node.webhooks.samples(), *of_processes,
    ]  # fmt: skip
    samples.append(Sample("registrar_audit_lost", total.audit_lost + audit_lost))
    if node.files is not None:
        samples += node.files.samples()
    if node.certificates is not None:
        samples += node.certificates.samples()
    return prometheus.text(total, samples)


def _of_node(node: Node) -> Iterator[Sample]:
    state, store = status(node), node.store.stat()
    yield Sample("registrar_build_info", 1, (VERSION, platform.python_version()))
    yield Sample("registrar_cluster_info", 1, (state.log,))
    yield Sample("registrar_ready", float(state.ready))
    yield Sample("registrar_ready_for_writes", float(state.ready_for_writes))
    yield Sample("registrar_cannot_lead", float(bool(state.cannot_lead)))
    yield from (Sample("registrar_role", float(state.role == role), (role,)) for role in _ROLES)
    yield Sample("registrar_nodes", node.known_nodes())
    yield Sample("registrar_peer_problems", len(state.peer_problems))
    yield Sample("registrar_epoch", state.epoch)
    yield Sample("registrar_log_end_offset", state.end)
    yield Sample("registrar_applied_offset", state.applied)
    yield Sample("registrar_quarantined_records", state.quarantined)
    yield Sample("registrar_store_rows", store.rows)
    yield Sample("registrar_store_bytes", store.bytes_used)
    yield Sample("registrar_store_map_bytes", store.map_bytes)


def _of_stock(stock: Stock) -> Iterator[Sample]:
    types = sorted({*FORMATS, *(kind for kind, _ in stock.versions)})
    for state in _STATES:
        yield Sample("registrar_subjects", stock.subjects[state], (state,))
        for kind in types:
            yield Sample("registrar_versions", stock.versions[kind, state], (kind, state))


def _of_ids(stock: Stock) -> Iterator[Sample]:
    for context, share in stock.ids_used.items():
        yield Sample("registrar_ids_used_ratio", share, (context,))


def _of_search(node: Node) -> Iterator[Sample]:
    if node.search is not None:
        known = node.search.progress
        yield Sample("registrar_search_built_ratio", known.part_built)
        yield Sample("registrar_search_lag_records", max(0, node.store.applied - known.offset))


def _of_work(node: Node, total: Tally) -> Iterator[Sample]:
    writer, heartbeats = node.writer.stat(), node.candidate.heartbeats
    yield Sample("registrar_writes_waiting", writer.waiting)
    yield Sample("registrar_writer_batches", writer.batches)
    yield Sample("registrar_writer_commands", writer.commands)
    yield Sample("registrar_writer_records", writer.records)
    yield Sample("registrar_writer_clashes", writer.clashes)
    yield Sample("registrar_schemas_registered", writer.versions)
    yield Sample("registrar_http_connections", total.connections)
    yield Sample("registrar_feed_listeners", total.listeners)
    yield Sample("registrar_feed_dropped", total.dropped)
    yield Sample("registrar_asks_other", node.asks.other)
    yield from (Sample("registrar_event_loop_lag_seconds", *lag) for lag in _lags_s(node, total))
    if heartbeats.age_s():
        yield Sample("registrar_heartbeat_age_seconds", heartbeats.age_s())
        yield Sample("registrar_heartbeat_gap_seconds", heartbeats.longest_s())
    yield from (Sample("registrar_restarts", count, (kind,)) for kind, count in node.restarts.items())


def _lags_s(node: Node, total: Tally) -> Iterator[tuple[float, tuple[str]]]:
    """Yield the recent lag of each event loop in seconds; all readers count as one."""
    yield node.pulse.lag_s(), ("node",)
    yield total.lag_s, ("readers",)
    if not node.standalone:
        yield node.candidate.election_thread.pulse.lag_s(), ("election",)


def _aliases(node: Node, total: Tally) -> Iterator[Sample]:
    """Yield what dashboards for Confluent's registry ask for, by their names."""
    failed = sum(each.count for each in total.requests if each.status >= 400)
    yield from _named_by_confluent(
        {
            "master_slave_role": float(node.role == "primary"),
            "node_count": node.known_nodes(),
            "api_success_count": sum(each.count for each in total.requests) - failed,
            "api_failure_count": failed,
            **{f"association_batch_{name}_count": count for name, count in total.results.items()},
        }
    )


def _aliases_of_stock(stock: Stock) -> Iterator[Sample]:
    """Yield the numbers of subjects and versions by the names of Confluent's registry and of Karapace."""
    live = stock.in_state(LIVE)
    confluent: dict[str, float] = {"registered_count": live, "deleted_count": stock.in_state(DELETED)}
    for name in CONFLUENT_TYPES:
        confluent[f"{name}_schemas_created"] = stock.of_type(name.upper())
        confluent[f"{name}_schemas_deleted"] = stock.versions[name.upper(), DELETED]
    yield from _named_by_confluent(confluent)
    yield Sample("karapace_schema_reader_schemas", live)
    yield Sample("karapace_schema_reader_subjects", sum(stock.subjects.values()))
    for state in _STATES:
        yield Sample("karapace_schema_reader_subject_data_schema_versions", stock.in_state(state), (state,))


def _named_by_confluent(values: Mapping[str, float]) -> Iterator[Sample]:
    return (Sample(f"kafka_schema_registry_{name}", value) for name, value in values.items())
