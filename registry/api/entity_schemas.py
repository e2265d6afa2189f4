"""JSON schemas of what the API takes and gives, under the names that the OpenAPI document uses."""

from __future__ import annotations

from typing import Any

from registry.domain.values import LEVELS, LIFECYCLES, MODES

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_INT: Json = {"type": "integer", "format": "int32"}
_LONG: Json = {"type": "integer", "format": "int64"}
_BOOL: Json = {"type": "boolean"}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def _map(item: Json) -> Json:
    return {"type": "object", "additionalProperties": item}


def _object(required: str = "", /, **members: Json) -> Json:
    found: Json = {"type": "object", "properties": members}
    if required:
        found["required"] = required.split()
    return found


def _nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _all_nullable(members: Json) -> Json:
    return {name: _nullable(each) for name, each in members.items()}


_CONTENT: Json = {
    "schemaType": _TEXT,
    "references": _list(_ref("SchemaReference")),
    "metadata": _ref("Metadata"),
    "ruleSet": _ref("RuleSet"),
    "schema": _TEXT,
}
_SNAPSHOT: Json = {
    "id": _TEXT,
    "state": {"enum": ["requested", "building", "ready", "failed", "deleting"]},
    "log": {"type": "string", "description": "Identity of the log"},
    "offset": {**_LONG, "description": "The snapshot is the state of the log before this offset"},
    "uri": {"type": "string", "description": "The location; the snapshot is the folder id in it"},
    "requested_ms": {**_LONG, "description": "ms since the epoch, as the other times"},
    **dict.fromkeys(("updated_ms", "at_end_ms", "rows", "size", "comparable_from"), _LONG),
    **dict.fromkeys(("attempts", "schemas", "fold"), _INT),
    **dict.fromkeys(("builder", "reason", "engine", "base", "digest", "format"), _TEXT),
}
_TIMES: Json = {"ts": {**_LONG, "description": "ms since the epoch"}, "deleted": _BOOL}
_SCHEMA_TAGS: Json = _list(_ref("SchemaTags"))
_SCHEMA: Json = {
    "subject": _TEXT,
    "version": _INT,
    "id": _INT,
    "guid": _TEXT,
    **_CONTENT,
    **_TIMES,
    "schemaTags": _SCHEMA_TAGS,
}
_CONFIG: Json = {
    "alias": _TEXT,
    "aliasForDeks": _TEXT,
    "normalize": _BOOL,
    "validateFields": _BOOL,
    "validateNewSchemas": _BOOL,
    "validateRules": _BOOL,
    "compatibilityPolicy": _TEXT,
    "compatibilityGroup": _TEXT,
    "defaultMetadata": _ref("Metadata"),
    "overrideMetadata": _ref("Metadata"),
    "defaultRuleSet": _ref("RuleSet"),
    "overrideRuleSet": _ref("RuleSet"),
}
_RESOURCE: Json = {
    "resourceName": _TEXT, "resourceNamespace": _TEXT, "resourceId": _TEXT, "resourceType": _TEXT,
}  # fmt: skip
_LIFECYCLE: Json = {"enum": LIFECYCLES}
_ASSOCIATION_TYPE: Json = {"enum": ("key", "value")}
_WANTED: Json = {
    "subject": _nullable(_TEXT),
    "associationType": _nullable(_ASSOCIATION_TYPE),
    "lifecycle": _nullable(_LIFECYCLE),
    "frozen": _nullable(_BOOL),
    "schema": _nullable(_ref("RegisterSchemaRequest")),
    "normalize": _nullable(_BOOL),
}

SCHEMAS: dict[str, Json] = {
    "Error": _object("error_code message", error_code=_INT, message=_TEXT),
    "Empty": {"type": "object", "additionalProperties": False},
    "Id": _INT,
    "Names": _list(_TEXT),
    "Numbers": _list(_INT),
    "SchemaText": {"description": "The bare schema text, not quoted"},
    "SchemaReference": _object("name subject version", name=_TEXT, subject=_TEXT, version=_INT),
    "Metadata": _object(tags=_map(_list(_TEXT)), properties=_map(_TEXT), sensitive=_list(_TEXT)),
    "Rule": _object(
        name=_TEXT, doc=_TEXT, kind=_TEXT, mode=_TEXT, type=_TEXT, tags=_list(_TEXT), params=_map(_TEXT),
        expr=_TEXT, onSuccess=_TEXT, onFailure=_TEXT, disabled=_BOOL,
    ),
    "RuleSet": _object(
        migrationRules=_list(_ref("Rule")), domainRules=_list(_ref("Rule")),
        encodingRules=_list(_ref("Rule")), enableAt=_TEXT,
    ),
    "Schema": _object("subject version id guid schemaType schema", **_SCHEMA),
    "Schemas": _list(_object(
        "subject version id guid schemaType schema",
        **_SCHEMA, aliases=_list(_TEXT), associations=_list(_ref("Association")),
    )),
    "SchemaString": _object(
        "guid schemaType schema", subject=_TEXT, version=_INT, guid=_TEXT, **_CONTENT, maxId=_INT, **_TIMES
    ),
    "RegisterSchemaRequest": _object(
        version=_nullable(_INT), id=_nullable(_INT), **_all_nullable(_CONTENT),
        schemaTagsToAdd=_nullable(_SCHEMA_TAGS), schemaTagsToRemove=_nullable(_SCHEMA_TAGS),
        propagateSchemaTags=_nullable(_BOOL),
    ),
    "SchemaTags": _object(
        "schemaEntity tags",
        schemaEntity=_object(
            "entityPath entityType", entityPath=_TEXT, entityType={"enum": ("sr_record", "sr_field")}
        ),
        tags=_list(_TEXT),
    ),
    "TagSchemaRequest": _object(
        newVersion=_nullable(_INT), tagsToAdd=_nullable(_SCHEMA_TAGS), tagsToRemove=_nullable(_SCHEMA_TAGS),
        metadata=_nullable(_ref("Metadata")), ruleSet=_nullable(_ref("RuleSet")),
        rulesToMerge=_nullable(_ref("RuleSet")), rulesToRemove=_nullable(_list(_TEXT)),
    ),
    "RegisterSchemaResponse": _object(
        "id version guid schemaType schema", id=_INT, version=_INT, guid=_TEXT, **_CONTENT, **_TIMES
    ),
    "SubjectVersions": _list(_object("subject version", subject=_TEXT, version=_INT)),
    "ContextIds": _list(_object("context id", context=_TEXT, id=_INT)),
    "CompatibilityCheckResponse": _object(
        "is_compatible", is_compatible=_BOOL, messages=_list(_TEXT), changes=_list(_ref("Change")),
    ),
    "Change": _object(
        "type path old new level direction versionCompared compatible fix",
        type=_TEXT, path={**_TEXT, "description": "Where, as a JSON pointer or, for Protobuf, by numbers"},
        old=_nullable({**_TEXT, "description": "The part in the registered schema; null: not there"}),
        new=_nullable(_TEXT),
        level={**_TEXT, "description": "The level in force"},
        direction={
            "enum": ["BACKWARD", "FORWARD", ""],
            "description": "BACKWARD: from what was written before to the new schema; FORWARD: the reverse",
        },
        versionCompared=_nullable(_INT), compatible=_BOOL,
        fix={**_TEXT, "description": "One sentence that says what would pass; empty where compatible"},
    ),
    "ExplainRequest": _object(
        "old new",
        schemaType=_nullable(_TEXT), old=_ref("ExplainedSchema"), new=_ref("ExplainedSchema"),
        compatibilityPolicy=_nullable(_TEXT),
    ),
    "ExplainedSchema": _object(
        "schema", schema=_TEXT, references=_nullable(_list(_ref("SchemaReference")))
    ),
    "ExplainResponse": _object(
        "levels changes",
        levels=_object(
            " ".join(LEVELS),
            **dict.fromkeys(LEVELS, _object("compatible messages", compatible=_BOOL, messages=_list(_TEXT))),
        ),
        changes=_list(_ref("Change")),
    ),
    "Duplicates": _object(
        "complete examined groups",
        complete={**_BOOL, "description": "Everything has been examined; else ask again"},
        examined={**_LONG, "description": "How many versions have been examined so far"},
        groups=_list(_object(
            "schemaType normalized contents",
            schemaType=_TEXT, normalized={**_TEXT, "description": "The guid of the normalised content"},
            contents=_list(_object("guid versions", guid=_TEXT, versions=_list(
                _object("subject version id", subject=_TEXT, version=_INT, id=_INT)
            ))),
        )),
    ),
    "Config": _object(compatibilityLevel={"enum": LEVELS}, **_CONFIG),
    "ConfigUpdateRequest": _object(
        compatibility=_nullable({"enum": LEVELS}), **_all_nullable(_CONFIG)
    ),
    "Mode": _object(mode={"enum": MODES}),
    "ModeUpdateRequest": _object("mode", mode=_nullable({"enum": MODES})),
    "ModeUpdated": _object(mode={"type": "string", "description": "As it was sent; absent for null"}),
    "ServerClusterId": _object(
        "scope", scope=_object("path clusters", path=_list(_TEXT), clusters=_map(_TEXT))
    ),
    "SchemaRegistryServerVersion": _object("version commitId", version=_TEXT, commitId=_TEXT),
    "SchemaRegistryDeployment": _object("attributes", attributes=_list(_TEXT)),
    "Association": _object(
        "subject lifecycle",
        subject=_TEXT, guid=_TEXT, **_RESOURCE, associationType=_ASSOCIATION_TYPE, lifecycle=_LIFECYCLE,
        frozen={**_BOOL, "description": "Absent where the lifecycle says as much: STRONG is, WEAK is not"},
        createTs={**_LONG, "description": "ms since the epoch"}, updateTs=_LONG,
    ),
    "Associations": _list(_ref("Association")),
    "AssociationInfo": _object(
        "subject lifecycle frozen",
        subject=_TEXT, associationType=_ASSOCIATION_TYPE, lifecycle=_LIFECYCLE, frozen=_BOOL,
        schema=_ref("Schema"),
    ),
    "AssociationResponse": _object(**_RESOURCE, associations=_list(_ref("AssociationInfo"))),
    "AssociationRequest": _object(
        "resourceName resourceNamespace associations",
        **_RESOURCE, associations=_list(_object(**_WANTED)),
    ),
    "AssociationBatchRequest": _object(
        "requests",
        requests=_list(_object(
            "resourceName resourceNamespace associations",
            **_RESOURCE,
            associations=_list(_object(
                "opType", opType={"enum": ("CREATE", "UPSERT", "DELETE")}, **_WANTED,
                cascadeLifecycle=_nullable(_BOOL),
            )),
        )),
    ),
    "AssociationBatchGetRequest": _object(
        "requests",
        requests=_list(_object(
            **_RESOURCE, associationTypes=_nullable(_list(_TEXT)), lifecycle=_nullable(_LIFECYCLE)
        )),
    ),
    "AssociationBatchResponse": _object(
        "results", results=_list(_object(error=_ref("Error"), result=_ref("AssociationResponse")))
    ),
    "Health": _object(
        "status reasons",
        status=_TEXT, reasons=_list(_TEXT), eta_s=_nullable({"type": "number"}),
        snapshot=_ref("SnapshotStart"),
    ),
    "SnapshotStart": _object(
        "id loaded refused",
        id=_TEXT, loaded=_BOOL, offset=_LONG, rows=_LONG, rows_done=_LONG, bytes=_LONG, bytes_done=_LONG,
        took_s={"type": "number"}, eta_s=_nullable({"type": "number"}), refused=_list(_TEXT),
    ),
    "Node": _object(
        "role epoch applied end digest ready",
        role=_TEXT, epoch=_LONG, applied=_LONG, end=_LONG, digest=_TEXT, started=_BOOL, ready=_BOOL,
        reasons=_list(_TEXT), records_per_s={"type": "number"}, eta_s=_nullable({"type": "number"}),
        quarantined=_LONG, log=_TEXT, start=_nullable(_ref("SnapshotStart")),
    ),
    "Quarantine": _list(_object("offset reason key", offset=_LONG, reason=_TEXT, key=_TEXT)),
    "Snapshot": _object("id state log offset uri requested_ms updated_ms", **_SNAPSHOT),
    "Snapshots": _list(_ref("Snapshot")),
    "Metrics": _TEXT,
    "OpenApi": {"type": "object"},
}  # fmt: skip
