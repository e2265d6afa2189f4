"""JSON Schemas of Confluent's request and response bodies, by their names in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from registry.domain.log_format.subject_values import LEVELS, LIFECYCLES, MODES, USED_LEVELS

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
INT: Json = {"type": "integer", "format": "int32"}
LONG: Json = {"type": "integer", "format": "int64"}
NUMBER: Json = {"type": "number"}
BOOL: Json = {"type": "boolean"}


def ref(name: str) -> Json:
    """Return a reference to the entity of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(item: Json) -> Json:
    """Return the schema of an array."""
    return {"type": "array", "items": item}


def map_of(item: Json) -> Json:
    """Return the schema of an object with any members of this form."""
    return {"type": "object", "additionalProperties": item}


def object_of(required: str = "", /, **members: Json) -> Json:
    """Return the schema of an object with these members; those in ``required`` are always present."""
    found: Json = {"type": "object", "properties": members}
    if required:
        found["required"] = required.split()
    return found


def nullable(schema: Json) -> Json:
    """Return the schema of the same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def all_nullable(members: Json) -> Json:
    """Return members each of which may be null."""
    return {name: nullable(each) for name, each in members.items()}


_CONTENT: Json = {
    "schemaType": TEXT,
    "references": list_of(ref("SchemaReference")),
    "metadata": ref("Metadata"),
    "ruleSet": ref("RuleSet"),
    "schema": TEXT,
}
_TIMES: Json = {"ts": {**LONG, "description": "ms since the epoch"}, "deleted": BOOL}
_SCHEMA_TAGS: Json = list_of(ref("SchemaTags"))
_SCHEMA: Json = {
    "subject": TEXT,
    "version": INT,
    "id": INT,
    "guid": TEXT,
    **_CONTENT,
    **_TIMES,
    "schemaTags": _SCHEMA_TAGS,
}
_CONFIG: Json = {
    "alias": TEXT,
    "aliasForDeks": TEXT,
    "normalize": BOOL,
    "validateFields": BOOL,
    "validateNewSchemas": BOOL,
    "validateRules": BOOL,
    "compatibilityPolicy": TEXT,
    "compatibilityGroup": TEXT,
    "compatibilityUsed": BOOL,
    "defaultMetadata": ref("Metadata"),
    "overrideMetadata": ref("Metadata"),
    "defaultRuleSet": ref("RuleSet"),
    "overrideRuleSet": ref("RuleSet"),
}
_SHARED: dict[str, Json] = {
    "Error": object_of("error_code message", error_code=INT, message=TEXT),
    "Empty": {"type": "object", "additionalProperties": False},
    "Id": INT,
    "Names": list_of(TEXT),
    "Numbers": list_of(INT),
    "SchemaText": {"description": "The schema text itself, not quoted"},
    "SchemaReference": object_of("name subject version", name=TEXT, subject=TEXT, version=INT),
    "Metadata": object_of(tags=map_of(list_of(TEXT)), properties=map_of(TEXT), sensitive=list_of(TEXT)),
    "Rule": object_of(
        name=TEXT, doc=TEXT, kind=TEXT, mode=TEXT, type=TEXT, tags=list_of(TEXT), params=map_of(TEXT),
        expr=TEXT, onSuccess=TEXT, onFailure=TEXT, disabled=BOOL,
    ),
    "RuleSet": object_of(
        migrationRules=list_of(ref("Rule")), domainRules=list_of(ref("Rule")),
        encodingRules=list_of(ref("Rule")), enableAt=TEXT,
    ),
    "Schema": object_of("subject version id guid schemaType schema", **_SCHEMA),
    "Schemas": list_of(object_of(
        "subject version id guid schemaType schema",
        **_SCHEMA, aliases=list_of(TEXT), associations=list_of(ref("Association")),
    )),
    "SchemaString": object_of(
        "guid schemaType schema", subject=TEXT, version=INT, guid=TEXT, **_CONTENT, maxId=INT,
        subjects=list_of(TEXT), **_TIMES
    ),
    "RegisterSchemaRequest": object_of(
        version=nullable(INT), id=nullable(INT), **all_nullable(_CONTENT),
        schemaTagsToAdd=nullable(_SCHEMA_TAGS), schemaTagsToRemove=nullable(_SCHEMA_TAGS),
        propagateSchemaTags=nullable(BOOL),
    ),
    "SchemaTags": object_of(
        "schemaEntity tags",
        schemaEntity=object_of(
            "entityPath entityType", entityPath=TEXT, entityType={"enum": ("sr_record", "sr_field")}
        ),
        tags=list_of(TEXT),
    ),
    "TagSchemaRequest": object_of(
        newVersion=nullable(INT), tagsToAdd=nullable(_SCHEMA_TAGS), tagsToRemove=nullable(_SCHEMA_TAGS),
        metadata=nullable(ref("Metadata")), ruleSet=nullable(ref("RuleSet")),
        rulesToMerge=nullable(ref("RuleSet")), rulesToRemove=nullable(list_of(TEXT)),
    ),
    "RegisterSchemaResponse": object_of(
        "id version guid schemaType schema", id=INT, version=INT, guid=TEXT, **_CONTENT, **_TIMES
    ),
    "SubjectVersions": list_of(object_of("subject version", subject=TEXT, version=INT)),
    "ContextIds": list_of(object_of("context id", context=TEXT, id=INT)),
    "CompatibilityCheckResponse": object_of(
        "is_compatible", is_compatible=BOOL, messages=list_of(TEXT), changes=list_of(ref("Change")),
        compared=TEXT,
    ),
    "Config": object_of(compatibilityLevel={"enum": LEVELS}, **_CONFIG),
    "ConfigUpdateRequest": object_of(
        compatibility=nullable({"enum": [*LEVELS, *USED_LEVELS]}), **all_nullable(_CONFIG)
    ),
    "Mode": object_of(mode={"enum": MODES}),
    "ModeUpdateRequest": object_of("mode", mode=nullable({"enum": MODES})),
    "ModeUpdated": object_of(mode={"type": "string", "description": "As it was sent; absent for null"}),
    "ServerClusterId": object_of(
        "scope", scope=object_of("path clusters", path=list_of(TEXT), clusters=map_of(TEXT))
    ),
    "SchemaRegistryServerVersion": object_of("version commitId", version=TEXT, commitId=TEXT),
    "SchemaRegistryDeployment": object_of("attributes", attributes=list_of(TEXT)),
}  # fmt: skip

_RESOURCE: Json = {
    "resourceName": TEXT, "resourceNamespace": TEXT, "resourceId": TEXT, "resourceType": TEXT,
}  # fmt: skip
_LIFECYCLE: Json = {"enum": LIFECYCLES}
_ASSOCIATION_TYPE: Json = {"enum": ("key", "value")}
_WANTED: Json = {
    "subject": nullable(TEXT),
    "associationType": nullable(_ASSOCIATION_TYPE),
    "lifecycle": nullable(_LIFECYCLE),
    "frozen": nullable(BOOL),
    "schema": nullable(ref("RegisterSchemaRequest")),
    "normalize": nullable(BOOL),
}
_ASSOCIATIONS: dict[str, Json] = {
    "Association": object_of(
        "subject lifecycle",
        subject=TEXT, guid=TEXT, **_RESOURCE, associationType=_ASSOCIATION_TYPE, lifecycle=_LIFECYCLE,
        frozen={**BOOL, "description": "It can only be deleted, with its subject; left out: strong ones are"},
        createTs={**LONG, "description": "ms since the epoch"}, updateTs=LONG,
    ),
    "Associations": list_of(ref("Association")),
    "AssociationInfo": object_of(
        "subject lifecycle",
        subject=TEXT, associationType=_ASSOCIATION_TYPE, lifecycle=_LIFECYCLE, frozen=BOOL,
        schema=ref("Schema"),
    ),
    "AssociationResponse": object_of(**_RESOURCE, associations=list_of(ref("AssociationInfo"))),
    "AssociationRequest": object_of(
        "resourceName resourceNamespace associations",
        **_RESOURCE, associations=list_of(object_of(**_WANTED)),
    ),
    "AssociationBatchRequest": object_of(
        "requests",
        requests=list_of(object_of(
            "resourceName resourceNamespace associations",
            **_RESOURCE,
            associations=list_of(object_of(
                "opType", opType={"enum": ("CREATE", "UPSERT", "DELETE")}, **_WANTED,
                cascadeLifecycle=nullable(BOOL),
            )),
        )),
    ),
    "AssociationBatchGetRequest": object_of(
        "requests",
        requests=list_of(object_of(
            **_RESOURCE, associationTypes=nullable(list_of(TEXT)), lifecycle=nullable(_LIFECYCLE)
        )),
    ),
    "AssociationBatchResponse": object_of(
        "results", results=list_of(object_of(error=ref("Error"), result=ref("AssociationResponse")))
    ),
}  # fmt: skip

SCHEMAS = _SHARED | _ASSOCIATIONS
