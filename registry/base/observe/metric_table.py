"""The table of metrics: names, meanings and labels. Docs and dashboards are held against it."""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Metric(NamedTuple):
    """One metric. Counters are served with ``_total`` at the end of their names."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    when: str = ""  # when it is served, if it is not always

    @property
    def series(self) -> tuple[str, ...]:
        """Names under which Prometheus stores it."""
        if self.kind == HISTOGRAM:
            return tuple(f"{self.name}_{end}" for end in ("bucket", "count", "sum"))
        return (f"{self.name}_total",) if self.kind == COUNTER else (self.name,)


_CLUSTER = "in a cluster"
_SNAPSHOT = "if there is a snapshot"
_WEBHOOKS = "on the primary, if there are webhooks"
_SEARCH = "if searches are on"
_REQUEST = ("method", "route", "status")
_CONFLUENT = "Confluent's name for"
_KARAPACE = "Karapace's name for"

_OWN = (
    Metric("registrar_build_info", GAUGE, "1, with versions of Registrar and Python", ("version", "python")),
    Metric("registrar_cluster_info", GAUGE, "1, with the identity of the cluster's log", ("cluster",)),
    Metric("registrar_ready", GAUGE, "1 if the node is ready: it should receive requests"),
    Metric("registrar_ready_for_writes", GAUGE, "1 if the node can carry out writes"),
    Metric("registrar_cannot_lead", GAUGE, "1 if the node may not become primary; `/node` says why"),
    Metric("registrar_role", GAUGE, "1 for the node's role; following: no primary is known", ("role",)),
    Metric("registrar_nodes", GAUGE, "On the primary all nodes; elsewhere itself and the primary"),
    Metric(
        "registrar_peer_problems", GAUGE,
        "Number of nodes that this one refuses, plus 1 if it cannot reach the primary; `/node` says why",
    ),
    Metric("registrar_epoch", GAUGE, "Newest epoch in the applied log; it grows with each election"),
    Metric("registrar_log_end_offset", GAUGE, "Offset of the log's next record"),
    Metric("registrar_applied_offset", GAUGE, "Offset up to which the store holds the log"),
    Metric("registrar_quarantined_records", GAUGE, "Quarantined records"),
    Metric("registrar_subjects", GAUGE, "Subjects; soft_deleted: all versions are soft-deleted", ("state",)),
    Metric(
        "registrar_versions", GAUGE, "Versions in the store, by type of schema and state",
        ("type", "state"),
    ),
    Metric(
        "registrar_ids_used_ratio", GAUGE,
        "Share of the ids of a context that is used up; for the default context and the nine that used most",
        ("context",),
    ),
    Metric("registrar_store_rows", GAUGE, "Rows in the store"),
    Metric("registrar_store_bytes", GAUGE, "Bytes used by the store"),
    Metric("registrar_store_map_bytes", GAUGE, "Bytes that the store may use (store_map_bytes)"),
    Metric("registrar_writes_waiting", GAUGE, "Queued commands"),
    Metric("registrar_writer_batches", COUNTER, "Batches of commands decided"),
    Metric("registrar_writer_commands", COUNTER, "Commands decided"),
    Metric("registrar_writer_records", COUNTER, "Records appended to the log"),
    Metric(
        "registrar_writer_clashes", COUNTER,
        "Commands decided again because another program wrote to the log",
    ),
    Metric("registrar_schemas_registered", COUNTER, "Versions registered by this node"),
    Metric("registrar_http_requests", COUNTER, "Requests answered", _REQUEST),
    Metric(
        "registrar_http_request_seconds", HISTOGRAM, "Seconds from a request's last byte to its answer",
        ("method", "route"),
    ),
    Metric("registrar_http_connections", GAUGE, "Open connections"),
    Metric("registrar_feed_listeners", GAUGE, "Listeners of the change feed"),
    Metric("registrar_feed_dropped", COUNTER, "Listeners dropped because they read too slowly"),
    Metric(
        "registrar_asks_other", COUNTER,
        "Requests for schemas whose sender was not noted (asks_keep_days), because there are too many",
    ),
    Metric(
        "registrar_event_loop_lag_seconds", GAUGE,
        "Longest delay of a scheduled callback on an event loop in the last one to two minutes", ("loop",),
    ),
    Metric(
        "registrar_heartbeat_age_seconds", GAUGE,
        "Seconds since the Kafka group last confirmed this node's membership", when=_CLUSTER,
    ),
    Metric(
        "registrar_heartbeat_gap_seconds", GAUGE,
        "Longest pause between two such confirmations in the last one to two minutes", when=_CLUSTER,
    ),
    Metric("registrar_snapshots", GAUGE, "Snapshots of the log in the catalogue, by state", ("state",)),
    Metric("registrar_snapshot_offset", GAUGE, "Offset of the newest snapshot", when=_SNAPSHOT),
    Metric("registrar_snapshot_age_seconds", GAUGE, "Age of the newest snapshot", when=_SNAPSHOT),
    Metric(
        "registrar_webhook_deliveries", COUNTER, "Delivery attempts, by webhook and outcome",
        ("webhook", "outcome"), _WEBHOOKS,
    ),
    Metric(
        "registrar_webhook_failures", GAUGE, "Failed attempts since the last success", ("webhook",), _WEBHOOKS
    ),
    Metric(
        "registrar_webhook_lag_records", GAUGE, "Records of the log that a webhook has not examined yet",
        ("webhook",), _WEBHOOKS,
    ),
    Metric(
        "registrar_webhook_missed_records", GAUGE,
        "Records deleted from the log before a webhook examined them", ("webhook",), _WEBHOOKS,
    ),
    Metric("registrar_search_built_ratio", GAUGE, "Share of the search index that is built", when=_SEARCH),
    Metric(
        "registrar_search_lag_records", GAUGE,
        "Records of the log that the search index lacks; `/node` says why", when=_SEARCH,
    ),
    Metric(
        "registrar_certificate_expiry_seconds", GAUGE,
        "Seconds until the first certificate of a file expires; negative after that", ("file",),
        "if settings name certificates",
    ),
    Metric(
        "registrar_file_valid", GAUGE,
        "1 if the file that the setting names is valid, or keys can be fetched from its URL",
        ("setting",), "if settings name files or a URL of keys",
    ),
    Metric("registrar_audit_lost", COUNTER, "Audit entries that could not be written"),
    Metric("registrar_restarts", COUNTER, "Restarts of a process that ended", ("process",)),
)  # fmt: skip
_PROCESSES = tuple(
    Metric(name, kind, f"{text}, of all processes of a kind", ("process",), "on Linux")
    for name, kind, text in (
        ("registrar_processes", GAUGE, "Number"),
        ("process_cpu_seconds", COUNTER, "CPU time in seconds"),
        (
            "process_resident_memory_bytes",
            GAUGE,
            "Resident memory; shared memory is counted in each process",
        ),
        ("process_open_fds", GAUGE, "Open file descriptors, at most of one process"),
        ("process_max_fds", GAUGE, "Limit of open file descriptors, of the process with the lowest one"),
        ("process_start_time_seconds", GAUGE, "Start of the youngest process in seconds since the epoch"),
    )
)
# The types that Confluent counts, as in its names of metrics.
CONFLUENT_TYPES = {"avro": "Avro", "json": "JSON Schema", "protobuf": "Protobuf"}
_ALIASES = (
    Metric("kafka_schema_registry_registered_count", GAUGE, f"{_CONFLUENT} the number of live versions"),
    Metric("kafka_schema_registry_deleted_count", GAUGE, f"{_CONFLUENT} the number of soft-deleted versions"),
    Metric("kafka_schema_registry_master_slave_role", GAUGE, f"{_CONFLUENT} the role: 1 on the primary"),
    Metric("kafka_schema_registry_node_count", GAUGE, f"{_CONFLUENT} registrar_nodes"),
    Metric("kafka_schema_registry_api_success_count", GAUGE, f"{_CONFLUENT} requests answered below 400"),
    Metric("kafka_schema_registry_api_failure_count", GAUGE, f"{_CONFLUENT} the other requests"),
    *(
        Metric(
            f"kafka_schema_registry_association_batch_{name}_count",
            GAUGE,
            f"{_CONFLUENT} {text} within batches of associations",
        )
        for name, text in (
            ("get_success", "resources read"), ("get_failure", "resources not read"),
            ("mutate_success", "requests done"), ("mutate_failure", "requests refused"),
        )
    ),
    *(
        Metric(f"kafka_schema_registry_{name}_schemas_{state}", GAUGE, f"{_CONFLUENT} {text} versions{which}")
        for name, text in CONFLUENT_TYPES.items()
        for state, which in (("created", ""), ("deleted", ", soft-deleted"))
    ),
    Metric(
        "karapace_http_requests", COUNTER, f"{_KARAPACE} registrar_http_requests_total",
        ("method", "path", "status"),
    ),
    Metric("karapace_schema_reader_schemas", GAUGE, f"{_KARAPACE} the number of live versions"),
    Metric("karapace_schema_reader_subjects", GAUGE, f"{_KARAPACE} the number of subjects"),
    Metric(
        "karapace_schema_reader_subject_data_schema_versions", GAUGE, f"{_KARAPACE} the number of versions",
        ("state",),
    ),
)  # fmt: skip

METRICS = (*_OWN, *_PROCESSES, *_ALIASES)
