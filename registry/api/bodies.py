"""Request bodies: Confluent's entities, read into the fields of commands."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from registry.domain.commands import Register, TagsOf
from registry.domain.errors import BAD_REQUEST, INVALID_SCHEMA, RegistryError
from registry.domain.lookup import registration
from registry.domain.model import Metadata, Reference, RuleSet
from registry.domain.model import metadata as sorted_metadata
from registry.domain.model import rule_set as sorted_rule_set
from registry.domain.schemas.tags import FIELD, RECORD

from .json_input import (
    Reader,
    boolean,
    check_entries,
    check_references,
    document,
    integer,
    listing,
    mapping,
    members,
    text,
)


def schema_request(body: bytes, subject: str, **options: Any) -> Register:
    """Read a ``RegisterSchemaRequest`` for ``subject``; ``options`` are fields that the URL sets.

    Lookups and compatibility checks have the same bodies as registrations. Raises 400, 422, or 42201 for an
    incomplete reference.
    """
    return schema_members(document(body), subject, **options)


def schema_members(source: dict[str, Any], subject: str, **options: Any) -> Register:
    """Read the members of the same object."""
    fields: dict[str, Any] = {"schema": ""}
    # Most requests have one or two of the members.
    for sent, (field, read) in _SCHEMA_MEMBERS.items():
        value = source.get(sent)
        if value is not None and (found := read(value, sent)) is not None:
            fields[field] = found
    listed: list[_SentReference] | None = fields.pop("references", None)
    if listed is None:
        return Register(subject, **fields, **options)
    incomplete = next((each for each in listed if not each.complete), None)
    if incomplete is None:
        return Register(subject, references=[each.reference() for each in listed], **fields, **options)
    shown = ", ".join(each.text for each in listed)
    request = Register(subject, **fields, **options)
    raise registration.incomplete_reference(request, shown, incomplete.text)


def without_rule_sets(body: bytes) -> bytes:
    """Return a request without its rule sets, which Confluent's community server ignores."""
    try:
        source = document(body)
    except RegistryError:
        return body
    return orjson.dumps(_without_rule_sets(source))


def _without_rule_sets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_rule_sets(each) for each in value]
    if not isinstance(value, dict):
        return value
    # Metadata may have properties with these names.
    return {
        name: member if name in _METADATA else _without_rule_sets(member)
        for name, member in value.items()
        if name not in _RULE_SETS
    }


_RULE_SETS = frozenset({"ruleSet", "rulesToMerge", "rulesToRemove", "defaultRuleSet", "overrideRuleSet"})
_METADATA = frozenset({"metadata", "defaultMetadata", "overrideMetadata"})


def config_patch(body: bytes) -> dict[str, Any]:
    """Read a ``ConfigUpdateRequest`` as a patch: the members that were sent, under their names in the log."""
    source = document(body)
    return {
        name: read(source[sent], sent) for sent, (name, read) in _CONFIG_MEMBERS.items() if sent in source
    }


def mode_request(body: bytes) -> tuple[bool, str | None]:
    """Read a ``ModeUpdateRequest``: true if it has a ``mode``, and its value."""
    source = document(body)
    return "mode" in source, text(source.get("mode"), "mode")


def metadata(value: Any, member: str) -> Metadata | None:
    """Read tags, properties and sensitive names, sorted."""
    check_entries(value, member)
    source = members(value, member)
    if source is None:
        return None
    wanted = {
        "tags": mapping(listing(text))(source.get("tags"), f"{member}.tags"),
        "properties": mapping(text)(source.get("properties"), f"{member}.properties"),
        "sensitive": listing(text)(source.get("sensitive"), f"{member}.sensitive"),
    }
    return sorted_metadata(wanted)


def rule_set(value: Any, member: str) -> RuleSet | None:
    """Read migration, domain and encoding rules, sorted; they are validated later."""
    check_entries(value, member)
    source = members(value, member)
    if source is None:
        return None
    rules = listing(_rule)
    found = {name: rules(source.get(name), f"{member}.{name}") for name in _RULE_GROUPS}
    return sorted_rule_set({**found, "enableAt": text(source.get("enableAt"), f"{member}.enableAt")})


def tags_of(value: Any, member: str) -> list[TagsOf] | None:
    """Read a list of ``SchemaTags``."""
    check_entries(value, member)
    return listing(_read_tags)(value, member)


def _read_tags(value: Any, member: str) -> TagsOf | None:
    source = members(value, member)
    if source is None:
        return None
    entity = members(source.get("schemaEntity"), f"{member}.schemaEntity") or {}
    path = text(entity.get("entityPath"), f"{member}.schemaEntity.entityPath")
    kind = text(entity.get("entityType"), f"{member}.schemaEntity.entityType")
    if not path or kind not in (RECORD, FIELD):
        raise BAD_REQUEST(f"Cannot read '{member}.schemaEntity': requires a path, and {RECORD} or {FIELD}")
    return TagsOf(path, kind, listing(text)(source.get("tags"), f"{member}.tags") or [])


def _rule(value: Any, member: str) -> dict[str, Any] | None:
    source = members(value, member)
    if source is None:
        return None
    found = {name: read(source.get(name), f"{member}.{name}") for name, read in _RULE_MEMBERS.items()}
    return {**found, "disabled": bool(found["disabled"])}


_RULE_GROUPS = ("migrationRules", "domainRules", "encodingRules")
_RULE_MEMBERS: dict[str, Reader[Any]] = {
    "name": text,
    "doc": text,
    "kind": text,
    "mode": text,
    "type": text,
    "tags": listing(text),
    "params": mapping(text),
    "expr": text,
    "onSuccess": text,
    "onFailure": text,
    "disabled": boolean,
}


class _SentReference(NamedTuple):
    """A reference as a client sent it."""

    name: str | None
    subject: str | None
    version: int | None

    @property
    def complete(self) -> bool:
        return bool(self.name and self.subject and self.version is not None)

    @property
    def text(self) -> str:
        return registration.shown_reference(*self)

    def reference(self) -> Reference:
        assert self.name is not None
        assert self.subject is not None
        assert self.version is not None
        return Reference(self.name, self.subject, self.version)


def _references(value: Any, member: str) -> list[_SentReference] | None:
    check_references(value, member)
    return listing(_reference)(value, member)


def _reference(value: Any, member: str) -> _SentReference | None:
    source = members(value, member)
    if source is None:
        raise INVALID_SCHEMA("Invalid reference: null")
    return _SentReference(
        text(source.get("name"), f"{member}.name"),
        text(source.get("subject"), f"{member}.subject"),
        integer(source.get("version"), f"{member}.version"),
    )


def _changed_tags(value: Any, member: str) -> list[TagsOf] | None:
    return tags_of(value, member) or None


# In the order in which errors are reported.
_SCHEMA_MEMBERS: dict[str, tuple[str, Reader[Any]]] = {
    "version": ("version", integer),
    "id": ("schema_id", integer),
    "references": ("references", _references),
    "schema": ("schema", text),
    "schemaType": ("schema_type", text),
    "metadata": ("metadata", metadata),
    "ruleSet": ("rule_set", rule_set),
    "schemaTagsToAdd": ("tags_to_add", _changed_tags),
    "schemaTagsToRemove": ("tags_to_remove", _changed_tags),
    "propagateSchemaTags": ("propagate_tags", boolean),
}
_CONFIG_MEMBERS: dict[str, tuple[str, Reader[Any]]] = {
    "alias": ("alias", text),
    "aliasForDeks": ("aliasForDeks", text),
    "normalize": ("normalize", boolean),
    "validateFields": ("validateFields", boolean),
    "validateNewSchemas": ("validateNewSchemas", boolean),
    "validateRules": ("validateRules", boolean),
    "compatibility": ("compatibilityLevel", text),
    "compatibilityPolicy": ("compatibilityPolicy", text),
    "compatibilityGroup": ("compatibilityGroup", text),
    "compatibilityUsed": ("compatibilityUsed", boolean),
    "defaultMetadata": ("defaultMetadata", metadata),
    "overrideMetadata": ("overrideMetadata", metadata),
    "defaultRuleSet": ("defaultRuleSet", rule_set),
    "overrideRuleSet": ("overrideRuleSet", rule_set),
}
