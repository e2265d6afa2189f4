"""The nouns of the registry: subjects, references, metadata, rule sets, and the identity of a schema.

Everything here is plain data. Field names and their order are Confluent's, because the same shapes are the
JSON of the log and of the HTTP API.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ".__GLOBAL"  # defaults for every context; only config and mode may be stored under it
ID_MAX = 2**31 - 1
VERSION_MAX = 2**31 - 1


class Subject(NamedTuple):
    """A subject with its context; an empty ``name`` stands for the context itself.

    The default context's own scope, ``Subject(".", "")``, is also the scope of the top-level config and mode.
    """

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Subject:
        """Split a qualified name (Confluent 8.x: ``:.ctx:name``; a name without ``:.`` lies in the default context)."""
        if not text.startswith(":."):
            return cls(DEFAULT_CONTEXT, text)
        context, _, name = text[1:].partition(":")
        return cls(context, name)

    @classmethod
    def within(cls, context: str, text: str) -> Subject:
        """Split a name that lies in ``context`` unless it is qualified itself (references, aliases)."""
        return cls.parse(text) if text.startswith(":.") else cls(context, text)

    @property
    def qualified(self) -> str:
        """The name as the API and the log print it: ``name`` in the default context, else ``:.ctx:name``."""
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @property
    def is_context(self) -> bool:
        """Whether this names a context's own scope rather than a subject in it."""
        return not self.name


TOP = Subject(DEFAULT_CONTEXT, "")
EVERYWHERE = Subject(ALL_CONTEXTS, "")


class _Json(msgspec.Struct, frozen=True, omit_defaults=True):
    """A JSON object whose absent members are omitted again when it is printed."""


class Reference(msgspec.Struct, frozen=True):
    """A schema that another one uses; ``subject`` stays as the client wrote it, ``-1`` is the latest version."""

    name: str
    subject: str
    version: int


class Metadata(_Json, frozen=True):
    """Tags, properties and names of sensitive properties. Build it with :func:`metadata`, which sorts them."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None


class Rule(_Json, frozen=True):
    """One rule of a rule set, in Confluent's field order."""

    name: str | None = None
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str] | None = None
    expr: str | None = None
    on_success: str | None = msgspec.field(default=None, name="onSuccess")
    on_failure: str | None = msgspec.field(default=None, name="onFailure")
    disabled: bool = False


class RuleSet(_Json, frozen=True):
    """Migration, domain and encoding rules, in Confluent's field order."""

    migration_rules: list[Rule] | None = msgspec.field(default=None, name="migrationRules")
    domain_rules: list[Rule] | None = msgspec.field(default=None, name="domainRules")
    encoding_rules: list[Rule] | None = msgspec.field(default=None, name="encodingRules")
    enable_at: str | None = msgspec.field(default=None, name="enableAt")


def metadata(source: Any) -> Metadata:
    """``source`` (JSON object) as :class:`Metadata`: maps and sets sorted, empty ones dropped.

    Raises :class:`msgspec.ValidationError` when a member has another type than the field's.
    """
    raw = msgspec.convert(source, Metadata)
    tags = {key: sorted(set(values)) for key, values in sorted((raw.tags or {}).items())}
    properties = dict(sorted((raw.properties or {}).items()))
    return Metadata(tags or None, properties or None, sorted(set(raw.sensitive or ())) or None)


def identity(
    text: str, references: Sequence[Reference] = (), meta: Metadata | None = None, rules: RuleSet | None = None
) -> bytes:
    """The 16 MD5 bytes that are a schema's guid (Confluent 8.x ``MD5``; type and subject are no part of it)."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode())
        digest.update(reference.subject.encode())
        digest.update((reference.version & 0xFFFFFFFF).to_bytes(4, "big"))
    if meta is not None:
        digest.update(b"\x01" + _metadata_bytes(meta))
    if rules is not None:
        digest.update(b"\x01" + _rule_set_bytes(rules))
    return digest.digest()


def _metadata_bytes(meta: Metadata) -> bytes:
    parts: list[str] = []
    for key, values in sorted((meta.tags or {}).items()):
        parts += [key, *sorted(values)]
    for key, value in sorted((meta.properties or {}).items()):
        parts += [key, value]
    parts += meta.sensitive or []
    return "".join(parts).encode()


def _rule_set_bytes(rules: RuleSet) -> bytes:
    out = b"".join(
        _rule_bytes(rule)
        for group in (rules.migration_rules, rules.domain_rules, rules.encoding_rules)
        for rule in group or ()
    )
    return out + (rules.enable_at or "").encode()


def _rule_bytes(rule: Rule) -> bytes:
    parts = [rule.name, rule.doc, rule.kind, rule.mode, rule.type, *sorted(rule.tags or ())]
    for key, value in sorted((rule.params or {}).items()):
        parts += [key, value]
    parts += [rule.expr, rule.on_success, rule.on_failure]
    return "".join(part for part in parts if part).encode() + (b"\x01" if rule.disabled else b"")


def guid_text(md5: bytes) -> str:
    """The 16 bytes printed as a UUID."""
    text = md5.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
