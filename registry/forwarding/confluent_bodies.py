"""Request bodies of writes, as Confluent's clients send them."""

from __future__ import annotations

from typing import Any

import msgspec

from registry.domain.commands import (
    Associate,
    AssociationRequest,
    ChangeAssociations,
    Register,
    ResourceRequest,
    TagsOf,
    TagVersion,
)


def registration(command: Register) -> dict[str, Any]:
    """``RegisterSchemaRequest``."""
    members = {
        "schemaType": command.schema_type,
        "references": command.references,
        "metadata": command.metadata,
        "ruleSet": command.rule_set,
        "version": command.version or None,
        "id": command.schema_id if command.schema_id >= 0 else None,
        "schemaTagsToAdd": _tags(command.tags_to_add),
        "schemaTagsToRemove": _tags(command.tags_to_remove),
        "propagateSchemaTags": command.propagate_tags or None,
    }
    return {"schema": command.schema} | {name: value for name, value in members.items() if value is not None}


def tag_body(command: TagVersion) -> bytes:
    """``TagSchemaRequest``."""
    members = {
        "newVersion": command.new_version or None,
        "tagsToAdd": _tags(command.tags_to_add),
        "tagsToRemove": _tags(command.tags_to_remove),
        "metadata": command.metadata,
        "ruleSet": command.rule_set,
        "rulesToMerge": command.rules_to_merge,
        "rulesToRemove": command.rules_to_remove,
    }
    return msgspec.json.encode({name: value for name, value in members.items() if value is not None})


def _tags(listed: list[TagsOf] | None) -> list[dict[str, Any]] | None:
    if listed is None:
        return None
    return [
        {"schemaEntity": {"entityPath": each.path, "entityType": each.kind}, "tags": each.tags}
        for each in listed
    ]


def association_body(command: Associate | ChangeAssociations) -> bytes:
    """``AssociationCreateOrUpdateRequest`` or ``AssociationBatchRequest``."""
    if isinstance(command, Associate):
        return msgspec.json.encode(_resource(command.request))
    return msgspec.json.encode({"requests": [_resource(each) for each in command.requests]})


def _resource(request: ResourceRequest) -> dict[str, Any]:
    if request.error is not None:
        return {"error": {"error_code": request.error.code, "message": request.error.message}}
    members = {
        "resourceName": request.name,
        "resourceNamespace": request.namespace,
        "resourceId": request.resource_id,
        "resourceType": request.resource_type,
        "associations": [_association(each) for each in request.associations],
    }
    return {name: value for name, value in members.items() if value is not None}


def _association(wanted: AssociationRequest) -> dict[str, Any]:
    members = {
        "opType": wanted.op or None,
        "subject": wanted.subject,
        "associationType": wanted.association_type,
        "lifecycle": wanted.lifecycle,
        "frozen": wanted.frozen,
        "schema": None if wanted.schema is None else registration(wanted.schema),
        "normalize": wanted.schema.normalize if wanted.schema is not None else None,
        "cascadeLifecycle": wanted.cascade or None,
    }
    return {name: value for name, value in members.items() if value is not None}
