"""Core types of the registry: subjects, references, metadata, rule sets, and the identity of a schema.

Everything here is plain data. Field names and their order are Confluent's, because the log and the HTTP API
use the same JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ".__GLOBAL"  # defaults for every context; only config and mode may be stored under it
# The type of a schema that names none, in requests, answers and the log (Confluent 8.x).
DEFAULT_TYPE = "AVRO"
ID_MAX = 2**31 - 1
VERSION_MAX = 2**31 - 1
# Stands for the latest version wherever a client names one.
LATEST = -1

_V = TypeVar("_V")


class Subject(NamedTuple):
    """A subject and its context; an empty ``name`` stands for the context itself.

    ``Subject(".", "")``, the scope of the default context, is also the scope of the top-level config and
    mode.
    """

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Subject:
        """Parse a name; without ``:.ctx:`` in front it lies in the default context (Confluent 8.x)."""
        if not text.startswith(":."):
            return cls(DEFAULT_CONTEXT, text)
        context, _, name = text[1:].partition(":")
        return cls(context, name)

    @classmethod
    def within(cls, context: str, text: str) -> Subject:
        """Parse a name that lies in ``context`` unless it is qualified itself (references, aliases)."""
        return cls.parse(text) if text.startswith(":.") else cls(context, text)

    @property
    def qualified(self) -> str:
        """The name as the API and the log print it: ``name`` in the default context, else ``:.ctx:name``.

        :meth:`parse` returns the same subject again. So a name in the default context that looks qualified is
        printed qualified.
        """
        if self.context == DEFAULT_CONTEXT and not self.name.startswith(":."):
            return self.name
        return f":{self.context}:{self.name}"

    @property
    def is_context(self) -> bool:
        """True if this names a context rather than a subject in it."""
        return not self.name


TOP = Subject(DEFAULT_CONTEXT, "")
EVERYWHERE = Subject(ALL_CONTEXTS, "")


class _Json(msgspec.Struct, frozen=True, omit_defaults=True):
    """A JSON object that is printed without its absent members."""


class Reference(msgspec.Struct, frozen=True):
    """A schema that another one uses; ``subject`` stays as the client wrote it, version -1 is the latest."""

    name: str
    subject: str
    version: int


class Metadata(_Json, frozen=True):
    """Tags, properties and names of sensitive properties; :func:`metadata` sorts them."""

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
    disabled: bool = msgspec.field(default_factory=bool)  # printed even if false, as by Confluent


class RuleSet(_Json, frozen=True):
    """Migration, domain and encoding rules, in Confluent's field order."""

    migration_rules: list[Rule] | None = msgspec.field(default=None, name="migrationRules")
    domain_rules: list[Rule] | None = msgspec.field(default=None, name="domainRules")
    encoding_rules: list[Rule] | None = msgspec.field(default=None, name="encodingRules")
    enable_at: str | None = msgspec.field(default=None, name="enableAt")


def metadata(source: Any) -> Metadata:
    """Return the JSON object ``source`` as :class:`Metadata`: maps and sets sorted, empty ones dropped.

    Raises :class:`msgspec.ValidationError` when a member has another type than the field's.
    """
    raw = msgspec.convert(source, Metadata)
    tags = {key: _sorted_set(values) for key, values in _sorted_items(raw.tags)}
    properties = dict(_sorted_items(raw.properties))
    return Metadata(tags or None, properties or None, _sorted_set(raw.sensitive or ()) or None)


def rule_set(source: Any) -> RuleSet:
    """Return the JSON object ``source`` as :class:`RuleSet`, with Confluent's default kind and mode of rules.

    Tags and parameters are sorted; empty texts, lists and maps are dropped. Raises
    :class:`msgspec.ValidationError` when a member has another type than the field's.
    """
    raw = msgspec.convert(source, RuleSet)
    groups = (raw.migration_rules, raw.domain_rules, raw.encoding_rules)
    migration, domain, encoding = ([_rule(each) for each in group or ()] or None for group in groups)
    return RuleSet(migration, domain, encoding, raw.enable_at or None)


def _rule(raw: Rule) -> Rule:
    return Rule(
        raw.name, raw.doc or None, raw.kind or "TRANSFORM", raw.mode or "WRITEREAD", raw.type or None,
        _sorted_set(raw.tags or ()) or None, dict(_sorted_items(raw.params)) or None,
        raw.expr or None, raw.on_success or None, raw.on_failure or None, raw.disabled,
    )  # fmt: skip


def _java_order(text: str) -> bytes:
    # Java's sorted maps and sets compare UTF-16 units: characters beyond U+FFFF come before U+E000.
    return text.encode("utf-16-be")


def _sorted_set(texts: Iterable[str]) -> list[str]:
    return sorted(set(texts), key=_java_order)


def _sorted_items(items: dict[str, _V] | None) -> list[tuple[str, _V]]:
    return sorted((items or {}).items(), key=lambda item: _java_order(item[0]))


def identity(
    text: str,
    references: Sequence[Reference] = (),
    meta: Metadata | None = None,
    rules: RuleSet | None = None,
) -> bytes:
    """Return the 16 MD5 bytes behind a schema's guid; its type and subject do not count (Confluent 8.x)."""
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
    for key, values in _sorted_items(meta.tags):
        parts += [key, *_sorted_set(values)]
    for key, value in _sorted_items(meta.properties):
        parts += [key, value]
    parts += _sorted_set(meta.sensitive or ())
    return "".join(parts).encode()


def _rule_set_bytes(rules: RuleSet) -> bytes:
    out = b"".join(
        _rule_bytes(rule)
        for group in (rules.migration_rules, rules.domain_rules, rules.encoding_rules)
        for rule in group or ()
    )
    return out + (rules.enable_at or "").encode()


def _rule_bytes(rule: Rule) -> bytes:
    parts = [rule.name, rule.doc, rule.kind, rule.mode, rule.type, *_sorted_set(rule.tags or ())]
    for key, value in _sorted_items(rule.params):
        parts += [key, value]
    parts += [rule.expr, rule.on_success, rule.on_failure]
    return "".join(part for part in parts if part).encode() + (b"\x01" if rule.disabled else b"")


def guid_text(md5: bytes) -> str:
    """Return the 16 bytes as the text of a UUID."""
    text = md5.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
