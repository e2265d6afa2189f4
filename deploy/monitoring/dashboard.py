"""The Grafana dashboard: its rows and panels, and the JSON that Grafana imports (``make docs`` writes it)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_COLUMNS, _WIDTH, _HEIGHT = 24, 8, 7


class Panel(NamedTuple):
    """One panel; ``queries`` are pairs of an expression and its legend."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    says: str = ""


def _of(name: str, *matchers: str) -> str:
    return f"{name}{{{', '.join((_INSTANCES, *matchers))}}}"


def _rate(name: str, *matchers: str) -> str:
    return f"rate({_of(name, *matchers)}[$__rate_interval])"


def _each(title: str, name: str, unit: str = "short", legend: str = "", says: str = "") -> Panel:
    """Return a panel with a line for each node."""
    return Panel(title, ((_of(name), f"{{{{instance}}}} {legend}".rstrip()),), unit, says=says)


_INSTANCES = 'job="$job", instance=~"$instance"'
_INFO = 'registrar_cluster_info{job="$job"}'
_NODE = "{{instance}}"
_KIND = "{{instance}} {{process}}"
_REQUESTS = "registrar_http_requests_total"
_BUCKETS = f"sum by (le) ({_rate('registrar_http_request_seconds_bucket')})"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Overview": (
        Panel(
            "Ready nodes",
            (
                (f"sum({_of('registrar_ready')})", "ready"),
                (f"sum({_of('registrar_ready_for_writes')})", "ready for writes"),
            ),
            kind="stat",
        ),
        Panel("Primary", ((_of("registrar_role", 'role="primary"') + " == 1", _NODE),), kind="stat"),
        Panel(
            "Live subjects",
            ((f"max({_of('registrar_subjects', 'state=' + repr('live'))})", ""),),
            kind="stat",
        ),
        Panel("Versions", ((f"max by (type, state) ({_of('registrar_versions')})", "{{type}} {{state}}"),)),
        Panel(
            "Builds",
            (
                (
                    f"count by (version, python) ({_of('registrar_build_info')})",
                    "{{version}}, Python {{python}}",
                ),
            ),
            kind="stat",
        ),
    ),
    "Requests": (
        Panel("By status", ((f"sum by (status) ({_rate(_REQUESTS)})", "{{status}}"),), "reqps"),
        Panel(
            "By route",
            ((f"topk(10, sum by (method, route) ({_rate(_REQUESTS)}))", "{{method}} {{route}}"),),
            "reqps",
        ),
        Panel(
            "Latency",
            tuple((f"histogram_quantile({q}, {_BUCKETS})", f"quantile {q}") for q in (0.5, 0.99, 0.999)),
            "s",
        ),
        Panel(
            "Server errors",
            ((f"sum by (instance) ({_rate(_REQUESTS, 'status=~' + repr('5..'))})", _NODE),),
            "reqps",
        ),
        _each("Open connections", "registrar_http_connections"),
        _each("Event loops: longest delay", "registrar_event_loop_lag_seconds", "s", "{{loop}}"),
    ),
    "Cluster": (
        Panel("Roles", ((_of("registrar_role") + " == 1", "{{instance}} {{role}}"),)),
        Panel(
            "Clusters",
            ((f"count by (cluster) ({_of('registrar_cluster_info')})", "{{cluster}}"),),
            kind="stat",
            says="Nodes by the identity of their log.",
        ),
        _each("Nodes known", "registrar_nodes", says="All on the primary; elsewhere itself and the primary."),
        Panel("Elections in ten minutes", ((f"changes({_of('registrar_epoch')}[10m])", _NODE),)),
        _each("Heartbeats: longest pause", "registrar_heartbeat_gap_seconds", "s"),
        _each("Heartbeats: age of the last", "registrar_heartbeat_age_seconds", "s"),
    ),
    "Log": (
        Panel(
            "Records not yet applied",
            ((f"{_of('registrar_log_end_offset')} - {_of('registrar_applied_offset')}", _NODE),),
        ),
        Panel("Records appended", ((_rate("registrar_writer_records_total"), _NODE),), "wps"),
        Panel("Versions registered", ((_rate("registrar_schemas_registered_total"), _NODE),), "wps"),
        Panel(
            "Commands in a batch",
            (
                (
                    f"{_rate('registrar_writer_commands_total')} / {_rate('registrar_writer_batches_total')}",
                    _NODE,
                ),
            ),
        ),
        _each("Waiting commands", "registrar_writes_waiting"),
        _each("Quarantined records", "registrar_quarantined_records"),
        Panel("Clashes with another writer", ((_rate("registrar_writer_clashes_total"), _NODE),), "wps"),
    ),
    "Store": (
        _each("Bytes used", "registrar_store_bytes", "bytes"),
        Panel(
            "Part of the map that is used",
            ((f"{_of('registrar_store_bytes')} / {_of('registrar_store_map_bytes')}", _NODE),),
            "percentunit",
        ),
        _each("Rows", "registrar_store_rows"),
        Panel(
            "Part of the ids that is used",
            ((f"max by (context) ({_of('registrar_ids_used_ratio')})", "{{context}}"),),
            "percentunit",
        ),
    ),
    "Snapshots": (
        _each("Age of the newest", "registrar_snapshot_age_seconds", "s"),
        Panel(
            "Records since the newest",
            ((f"{_of('registrar_applied_offset')} - {_of('registrar_snapshot_offset')}", _NODE),),
        ),
        Panel("By state", ((f"max by (state) ({_of('registrar_snapshots')})", "{{state}}"),)),
    ),
    "Change feed": (
        _each("Listeners", "registrar_feed_listeners"),
        Panel(
            "Dropped, because they read too slowly",
            ((_rate("registrar_feed_dropped_total"), _NODE),),
            "short",
        ),
    ),
    "Usage": (
        Panel("Requests not counted by who asks", ((_rate("registrar_asks_other_total"), _NODE),), "reqps"),
    ),
    "Webhooks": (
        Panel(
            "Attempts",
            (
                (
                    f"sum by (webhook, outcome) ({_rate('registrar_webhook_deliveries_total')})",
                    "{{webhook}} {{outcome}}",
                ),
            ),
            "reqps",
        ),
        _each("Failures in a row", "registrar_webhook_failures", legend="{{webhook}}"),
        _each("Records to look at", "registrar_webhook_lag_records", legend="{{webhook}}"),
        _each("Records missed", "registrar_webhook_missed_records", legend="{{webhook}}"),
    ),
    "Search": (
        _each("Share built", "registrar_search_built_ratio", "percentunit"),
        _each("Records not indexed", "registrar_search_lag_records"),
    ),
    "Security": (
        Panel("Audit entries lost", ((_rate("registrar_audit_lost_total"), _NODE),), "wps"),
        Panel(
            "Refused requests",
            ((f"sum by (status) ({_rate(_REQUESTS, 'status=~' + repr('401|403|429'))})", "{{status}}"),),
            "reqps",
        ),
        _each("Valid files of settings", "registrar_file_valid", legend="{{setting}}"),
        _each("Certificates expire in", "registrar_certificate_expiry_seconds", "s", "{{file}}"),
    ),
    "Processes": (
        Panel("CPU", ((_rate("process_cpu_seconds_total"), _KIND),), "percentunit"),
        _each("Resident memory", "process_resident_memory_bytes", "bytes", "{{process}}"),
        Panel(
            "Open files, of the limit",
            ((f"{_of('process_open_fds')} / {_of('process_max_fds')}", _KIND),),
            "percentunit",
        ),
        _each("Running", "registrar_processes", legend="{{process}}"),
        Panel("Restarts in ten minutes", ((f"increase({_of('registrar_restarts_total')}[10m])", _KIND),)),
    ),
}


def dashboard() -> str:
    """Return the dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            _at({"type": "row", "title": title, "collapsed": False, "panels": []}, 0, y, _COLUMNS, 1)
        )
        y += 1
        for number, panel in enumerate(row):
            x = number * _WIDTH % _COLUMNS
            panels.append(_at(_panel(panel), x, y + number * _WIDTH // _COLUMNS * _HEIGHT, _WIDTH, _HEIGHT))
        y += -(-len(row) * _WIDTH // _COLUMNS) * _HEIGHT
    found = {
        "title": "Registrar",
        "uid": "registrar",
        "tags": ["kafka", "schema-registry"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
                _variable("job", "label_values(registrar_ready, job)", several=False),
                _variable("cluster", f"label_values({_INFO}, cluster)", several=False),
                _variable(
                    "instance",
                    f'label_values({_INFO[:-1]}, cluster="$cluster"}}, instance)',
                    several=True,
                ),
            ]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, 1)],
    }
    return json.dumps(found, indent=2) + "\n"


def _at(panel: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {**panel, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _panel(panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "$datasource"}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": expression,
                "legendFormat": legend,
                "datasource": source,
            }
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _variable(name: str, query: str, *, several: bool) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "query": {"query": query, "refId": name},
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "refresh": 2,
        "multi": several,
        "includeAll": several,
    }
