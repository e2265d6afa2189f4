"""JSON Schemas of Registrar's own bodies: differences, health, snapshots."""

from __future__ import annotations

from registry.domain.log_format.config_values import LEVELS

from .entity_schemas import BOOL, INT, LONG, TEXT, Json, list_of, nullable, object_of, ref

_SNAPSHOT: Json = {
    "id": TEXT,
    "state": {"enum": ["requested", "building", "ready", "failed", "deleting"]},
    "log": {"type": "string", "description": "Identity of the log"},
    "offset": {**LONG, "description": "The snapshot is the state of the log before this offset"},
    "uri": {"type": "string", "description": "The location; the snapshot is the folder id in it"},
    "requested_ms": {**LONG, "description": "ms since the epoch, as the other times"},
    **dict.fromkeys(("updated_ms", "at_end_ms", "rows", "size", "comparable_from"), LONG),
    **dict.fromkeys(("attempts", "schemas", "fold"), INT),
    **dict.fromkeys(("builder", "reason", "engine", "base", "digest", "format"), TEXT),
}

SCHEMAS: dict[str, Json] = {
    "Change": object_of(
        "type path old new level direction versionCompared compatible fix",
        type=TEXT, path={**TEXT, "description": "A JSON pointer or, for Protobuf, field numbers"},
        old=nullable({**TEXT, "description": "The part in the old schema; null: absent"}),
        new=nullable(TEXT),
        level={**TEXT, "description": "The level in force"},
        direction={
            "enum": ["BACKWARD", "FORWARD", ""],
            "description": "BACKWARD: data of the old schema read by the new one; FORWARD: the reverse",
        },
        versionCompared=nullable(INT), compatible=BOOL,
        fix={**TEXT, "description": "How to make it compatible; empty if it is"},
    ),
    "ExplainRequest": object_of(
        "old new",
        schemaType=nullable(TEXT), old=ref("ExplainedSchema"), new=ref("ExplainedSchema"),
        compatibilityPolicy=nullable(TEXT),
    ),
    "ExplainedSchema": object_of(
        "schema", schema=TEXT, references=nullable(list_of(ref("SchemaReference")))
    ),
    "ExplainResponse": object_of(
        "levels changes",
        levels=object_of(
            " ".join(LEVELS),
            **dict.fromkeys(
                LEVELS, object_of("compatible messages", compatible=BOOL, messages=list_of(TEXT))
            ),
        ),
        changes=list_of(ref("Change")),
    ),
    "Health": object_of(
        "status reasons",
        status=TEXT, reasons=list_of(TEXT), eta_s=nullable({"type": "number"}),
        snapshot=ref("SnapshotStart"),
    ),
    "KarapaceHealth": object_of(
        "status healthy",
        status=object_of(
            "schema_registry_ready",
            schema_registry_ready=BOOL, schema_registry_reader_current_offset=LONG,
            schema_registry_reader_highest_offset=LONG, schema_registry_is_primary=BOOL,
            schema_registry_primary_url=nullable(TEXT),
        ),
        healthy=BOOL,
    ),
    "PrimaryAvailable": object_of("master_available", master_available=BOOL),
    "SnapshotStart": object_of(
        "id loaded refused",
        id=TEXT, loaded=BOOL, offset=LONG, rows=LONG, rows_done=LONG, bytes=LONG, bytes_done=LONG,
        took_s={"type": "number"}, eta_s=nullable({"type": "number"}), refused=list_of(TEXT),
    ),
    "Node": object_of(
        "role epoch applied end digest ready",
        role=TEXT, epoch=LONG, applied=LONG, end=LONG, digest=TEXT, started=BOOL, ready=BOOL,
        reasons=list_of(TEXT), records_per_s={"type": "number"}, eta_s=nullable({"type": "number"}),
        quarantined=LONG, log=TEXT, node=TEXT, primary=TEXT, newest_snapshot=TEXT,
        election={**TEXT, "description": "Why there is no primary, or why this node does not write yet"},
        metadata_encoder={**TEXT, "description": "Why sensitive metadata cannot be read or written"},
        start=nullable(ref("SnapshotStart")),
        warnings={**list_of(TEXT), "description": "Ports that are reachable and not protected"},
    ),
    "SubjectDetails": object_of(
        "subject version id guid schemaType ts deleted versions deletedVersions size references "
        "compatibilityLevel mode associations",
        subject=TEXT, version=INT, id=INT, guid=TEXT, schemaType=TEXT, ts=LONG, deleted=BOOL,
        versions={**INT, "description": "Number of versions that are not soft-deleted"},
        deletedVersions={**INT, "description": "Number of soft-deleted versions"},
        size={**LONG, "description": "Length of the latest version's text as a JSON string, in bytes"},
        references={**INT, "description": "Number of the latest version's references"},
        compatibilityLevel={**TEXT, "description": "The level in force"},
        mode={**TEXT, "description": "The mode in force"},
        alias={**TEXT, "description": "The subject to which this name leads"},
        associations={**INT, "description": "Number of associations"},
    ),
    "Subjects": {"anyOf": [list_of(TEXT), list_of(ref("SubjectDetails"))]},
    "Quarantine": list_of(object_of("offset reason key", offset=LONG, reason=TEXT, key=TEXT)),
    "Snapshot": object_of("id state log offset uri requested_ms updated_ms", **_SNAPSHOT),
    "Snapshots": list_of(ref("Snapshot")),
    "Configs": list_of(object_of("subject config", subject=TEXT, config=ref("Config"))),
    "Modes": list_of(object_of("subject mode", subject=TEXT, mode=ref("Mode"))),
    "Metrics": TEXT,
    "OpenApi": {"type": "object"},
}  # fmt: skip
