"""JSON schemas of what is said of associations; see :mod:`.entity_schemas`."""

from __future__ import annotations

from registry.domain.log_format.values import LIFECYCLES

from .schema_shapes import BOOL, LONG, TEXT, Json, list_of, nullable, object_of, ref

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

SCHEMAS: dict[str, Json] = {
    "Association": object_of(
        "subject lifecycle",
        subject=TEXT, guid=TEXT, **_RESOURCE, associationType=_ASSOCIATION_TYPE, lifecycle=_LIFECYCLE,
        frozen={**BOOL, "description": "True if it cannot be changed, only deleted with its subject"},
        createTs={**LONG, "description": "ms since the epoch"}, updateTs=LONG,
    ),
    "Associations": list_of(ref("Association")),
    "AssociationInfo": object_of(
        "subject lifecycle frozen",
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
