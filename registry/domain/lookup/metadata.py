"""Metadata and rule sets: inheritance on registration, merging, and validation."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Any

import msgspec

from registry.domain import errors, model
from registry.domain.model import Metadata, Rule, RuleSet
from registry.domain.queries.scope import Config

VERSION_PROPERTY = "confluent:version"
RESERVED_PROPERTY = "confluent:reserved"

_MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_DOMAIN_MODES = ("WRITE", "READ", "WRITEREAD")
_KINDS = frozenset({"TRANSFORM", "CONDITION"})


def property_of(meta: Metadata | None, name: str) -> str | None:
    """Return the value of a property, if any."""
    return (meta.properties or {}).get(name) if meta is not None else None


def without_version(meta: Metadata | None) -> Metadata:
    """Return ``meta`` without the property that repeats the version; no metadata counts as empty."""
    if meta is None:
        return Metadata()
    properties = {name: value for name, value in (meta.properties or {}).items() if name != VERSION_PROPERTY}
    return Metadata(meta.tags, properties or None, meta.sensitive)


def with_version(meta: Metadata | None, version: int) -> Metadata:
    """Return ``meta`` with the property that repeats the version."""
    repeated = Metadata(properties={VERSION_PROPERTY: str(version)})
    return repeated if meta is None else _merge_two(meta, repeated)


def merge_inherited(
    config: Config,
    sent: tuple[Metadata | None, RuleSet | None],
    latest: tuple[Metadata | None, RuleSet | None],
) -> tuple[Metadata | None, RuleSet | None]:
    """Return the merged metadata and rules of a registration.

    Merges the config's defaults, then those sent or else the latest version's, then the config's overrides.
    """
    specific = sent[0] if sent[0] is not None else latest[0]
    rules = sent[1] if sent[1] is not None else latest[1]
    return (
        merge(config.default_metadata, specific, config.override_metadata),
        merge_rules(config.default_rule_set, rules, config.override_rule_set),
    )


def merge(*parts: Metadata | None) -> Metadata | None:
    """Merge metadata; later properties and tags replace earlier ones, sensitive names are united."""
    given = [part for part in parts if part is not None]
    return reduce(_merge_two, given) if given else None


def _merge_two(old: Metadata, new: Metadata) -> Metadata:
    return model.metadata(
        {
            "tags": (old.tags or {}) | (new.tags or {}),
            "properties": (old.properties or {}) | (new.properties or {}),
            "sensitive": [*(old.sensitive or ()), *(new.sensitive or ())],
        }
    )


def merge_rules(*parts: RuleSet | None) -> RuleSet | None:
    """Merge rule sets; a later rule replaces its namesake and moves to the end, a later ``enableAt`` wins."""
    given = [part for part in parts if part is not None]
    return reduce(_merge_two_rule_sets, given) if given else None


def _merge_two_rule_sets(old: RuleSet, new: RuleSet) -> RuleSet:
    return RuleSet(
        _merge_group(old.migration_rules, new.migration_rules),
        _merge_group(old.domain_rules, new.domain_rules),
        _merge_group(old.encoding_rules, new.encoding_rules),
        new.enable_at or old.enable_at,
    )


def _merge_group(old: list[Rule] | None, new: list[Rule] | None) -> list[Rule] | None:
    names = {rule.name for rule in new or ()}
    return [*(rule for rule in old or () if rule.name not in names), *(new or ())] or None


def without_rules(rules: RuleSet | None, names: Collection[str]) -> RuleSet | None:
    """Return ``rules`` without those with these names."""
    if rules is None or not names:
        return rules

    def keep(group: list[Rule] | None) -> list[Rule] | None:
        return [rule for rule in group or () if rule.name not in names] or None

    return RuleSet(
        keep(rules.migration_rules), keep(rules.domain_rules), keep(rules.encoding_rules), rules.enable_at
    )


def tidy_metadata(meta: Metadata | None) -> Metadata | None:
    """Return metadata as it is stored: sorted, without empty parts."""
    return None if meta is None else model.metadata(msgspec.to_builtins(meta))


def tidy_rules(rules: RuleSet | None) -> RuleSet | None:
    """Return rules as they are stored: default kind and mode set, sorted, no empty parts. Raises 42210."""
    if rules is None:
        return None
    members: dict[str, Any] = msgspec.to_builtins(rules)
    groups = (
        (rules.migration_rules, "Migration rules", _MIGRATION_MODES),
        (rules.domain_rules, "Domain rules", _DOMAIN_MODES),
        (rules.encoding_rules, "Encoding rules", _DOMAIN_MODES),
    )
    names: set[str | None] = set()
    for group, called, modes in groups:
        for rule in group or ():
            if rule.name is not None and rule.name in names:
                raise errors.INVALID_RULE_SET(f"Found rule with duplicate name '{rule.name}'")
            names.add(rule.name)
            reason = _fault(rule)
            if reason is None and (rule.mode or "WRITEREAD") not in modes:
                reason = f"{called} can only be {', '.join(modes)}"
            if reason is not None:
                raise errors.INVALID_RULE_SET(reason)
    return model.rule_set(members)


def _fault(rule: Rule) -> str | None:
    """Return the error of a rule, with the wording and precedence of Confluent 8.3.1."""
    name = rule.name
    if not name:
        return "Missing rule name" if name is None else "Empty rule name"
    if not (name[0].isalpha() or name[0] == "_"):
        return f"Illegal initial character in rule name: {name}"
    if not all(letter.isalnum() or letter in "_-" for letter in name):
        return f"Illegal character in rule name: {name}"
    if not rule.type:
        return "Missing rule type"
    several = any("," in (action or "") for action in (rule.on_success, rule.on_failure))
    if several and rule.mode not in (None, "WRITEREAD", "UPDOWN"):
        return "Multiple actions only valid with WRITEREAD and UPDOWN"
    if (rule.kind or "TRANSFORM") not in _KINDS:
        return f"Unknown rule kind: {rule.kind}"
    return None
