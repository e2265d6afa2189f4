"""Metadata and rule sets: merging, and the refusal of invalid rule sets."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.errors import RegistryError
from registry.domain.lookup.metadata import merge, merge_rules, tidy_rules, with_version, without_version
from registry.domain.model import Metadata, Rule, RuleSet

CEL = {"type": "CEL"}


def rule(name: str, **members: Any) -> Rule:
    return Rule(name, **(CEL | members))


def test_metadata_merges_by_key_and_unites_sensitive_names() -> None:
    old = Metadata({"a": ["1"], "b": ["1"]}, {"p": "1", "q": "1"}, ["x", "z"])
    new = Metadata({"b": ["2"]}, {"q": "2", "r": "2"}, ["y", "x"])
    assert merge(None, old, None, new) == Metadata(
        {"a": ["1"], "b": ["2"]}, {"p": "1", "q": "2", "r": "2"}, ["x", "y", "z"]
    )
    assert merge(None, None) is None
    assert merge(None, Metadata()) == Metadata()


def test_a_later_rule_of_the_same_name_moves_to_the_end() -> None:
    old = RuleSet(domain_rules=[rule("a"), rule("b")], migration_rules=[rule("m")], enable_at="here")
    new = RuleSet(domain_rules=[rule("a", expr="x")])
    merged = merge_rules(old, new)
    assert merged == RuleSet(
        domain_rules=[rule("b"), rule("a", expr="x")], migration_rules=[rule("m")], enable_at="here"
    )
    assert merge_rules(old, RuleSet(enable_at="there")).enable_at == "there"  # type: ignore[union-attr]
    assert merge_rules(None, None) is None


def test_the_version_is_repeated_and_taken_out() -> None:
    meta = Metadata(properties={"a": "1"})
    assert with_version(meta, 3).properties == {"a": "1", "confluent:version": "3"}
    assert with_version(with_version(None, 3), 4) == Metadata(properties={"confluent:version": "4"})
    assert without_version(with_version(meta, 3)) == meta
    assert without_version(None) == without_version(with_version(None, 1)) == Metadata()


def test_rules_get_their_defaults() -> None:
    tidied = tidy_rules(RuleSet(domain_rules=[Rule("r", type="CEL", tags=["b", "a"], expr="")]))
    expected = Rule("r", kind="TRANSFORM", mode="WRITEREAD", type="CEL", tags=["a", "b"])
    assert tidied == RuleSet(domain_rules=[expected])


MIGRATION = "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"
DOMAIN = "Domain rules can only be WRITE, READ, WRITEREAD"
ENCODING = "Encoding rules can only be WRITE, READ, WRITEREAD"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (RuleSet(domain_rules=[Rule(None, **CEL)]), "Missing rule name"),
        (RuleSet(domain_rules=[Rule("", **CEL)]), "Empty rule name"),
        (RuleSet(domain_rules=[rule("1a")]), "Illegal initial character in rule name: 1a"),
        (RuleSet(domain_rules=[rule("a.b")]), "Illegal character in rule name: a.b"),
        (RuleSet(domain_rules=[rule("a"), rule("a")]), "Found rule with duplicate name 'a'"),
        (RuleSet(encoding_rules=[Rule("a")]), "Missing rule type"),
        (RuleSet(domain_rules=[rule("a", kind="ODD")]), "Unknown rule kind: ODD"),
        (RuleSet(domain_rules=[rule("a", mode="ODD")]), DOMAIN),
        (RuleSet(domain_rules=[rule("a", mode="UPGRADE")]), DOMAIN),
        (RuleSet(migration_rules=[rule("a", mode="READ")]), MIGRATION),
        (RuleSet(migration_rules=[rule("a")]), MIGRATION),
        (RuleSet(encoding_rules=[rule("a", mode="UPDOWN")]), ENCODING),
    ],
)
def test_rule_sets_that_are_refused(rules: RuleSet, message: str) -> None:
    with pytest.raises(RegistryError) as refused:
        tidy_rules(rules)
    assert (refused.value.code, refused.value.message) == (42210, message)


def test_rule_sets_that_are_fine() -> None:
    rules = RuleSet(
        migration_rules=[rule("up", mode="UPGRADE"), rule("_1", mode="UPDOWN")],
        domain_rules=[rule("down", mode="READ"), rule("é", kind="CONDITION")],
        encoding_rules=[rule("enc", mode="WRITE")],
    )
    assert tidy_rules(rules) is not None
    assert tidy_rules(RuleSet()) == RuleSet()
    assert tidy_rules(None) is None
