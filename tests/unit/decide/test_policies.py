"""Policies of registrations: who may create and register, how many versions, and lint rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.domain.commands import PutMode, Register
from registry.domain.model import Subject
from registry.domain.policies import Policies, PolicyError, parse
from registry.domain.principal import ANONYMOUS, Principal
from registry.domain.queries.scope import Defaults
from tests.unit.small_registry import INT, LONG, STRING, SmallRegistry, record


def governed(policies: str, name: str = "", *groups: str) -> SmallRegistry:
    return SmallRegistry(Defaults(policies=parse(policies), principal=Principal(name, frozenset(groups))))


def as_principal(small: SmallRegistry, name: str, *groups: str) -> None:
    small.defaults = replace(small.defaults, principal=Principal(name, frozenset(groups)))


def test_who_is_not_named_cannot_create_a_subject_but_adds_versions() -> None:
    small = governed('[[policy]]\nsubjects = ["orders-*"]\ncreate = ["alice"]', "alice")
    small.register("orders-value", record("R", "a?"))
    as_principal(small, "bob")
    assert small.register("orders-value", record("R", "a?", "b?"))["version"] == 2
    code, message = small.refusal(Register("orders-key", STRING))
    assert (code, message) == (40380, "The policy for subject 'orders-key' does not allow 'bob' to create it")
    small.register("payments-value")


def test_a_group_may_be_named() -> None:
    small = governed('[[policy]]\nsubjects = ["*"]\ncreate = ["group:team"]', "carol", "team")
    small.register("s")
    as_principal(small, "team")
    assert small.refusal(Register("t", STRING))[0] == 40380


@pytest.mark.parametrize(
    ("named", "who", "kind", "allowed"),
    [
        ("alice", Principal("alice"), "token", True),
        ("alice", Principal("alice"), "", True),
        ("user:alice", Principal("alice"), "user", True),
        ("user:alice", Principal("alice"), "token", False),
        ("user:alice", Principal("user:alice"), "token", False),
        ("token:*", Principal("alice"), "token", True),
        ("token:*", Principal("alice"), "cert", False),
        ("group:token:team", Principal("alice", frozenset({"team"})), "token", True),
        ("group:token:team", Principal("alice", frozenset({"team"})), "user", False),
        # A name that looks like a group does not stand for it.
        ("group:team", Principal("group:team"), "token", False),
    ],
)
def test_the_kind_of_a_principal_or_group_may_be_named(
    named: str, who: Principal, kind: str, allowed: bool
) -> None:
    policies = parse(f'[[policy]]\nsubjects = ["*"]\nregister = ["{named}"]')
    assert policies.policy(Subject.parse("s"), who, kind).may_register is allowed
    small = SmallRegistry(Defaults(policies=policies, principal=who, kind=kind))
    if allowed:
        small.register("s")
    else:
        assert small.refusal(Register("s", STRING))[0] == 40381


@pytest.mark.parametrize("named", ["user:", "group:", "group:token:"])
def test_a_kind_or_group_without_a_name_is_refused(named: str) -> None:
    with pytest.raises(PolicyError, match="needs a name after"):
        parse(f'[[policy]]\nsubjects = ["*"]\ncreate = ["{named}"]')


def test_where_nobody_may_register_a_registered_schema_is_still_found() -> None:
    small = SmallRegistry()
    first = small.register("s", record("R", "a"))
    small.defaults = Defaults(policies=parse('[[policy]]\nsubjects = ["s"]\nregister = []'))
    assert small.register("s", record("R", "a")) == first
    assert small.last == []
    code, message = small.refusal(Register("s", record("R", "a", "b?")))
    assert code == 40381
    assert message == (
        "The policy for subject 's' does not allow clients without a name to register new schemas; "
        "schemas that are already registered can be used"
    )


def test_a_subject_at_its_limit_takes_no_version_until_one_is_deleted() -> None:
    small = governed('[[policy]]\nsubjects = ["s"]\nversions_max = 2')
    small.level("s", "NONE")
    small.register("s", STRING)
    small.register("s", INT)
    assert small.refusal(Register("s", LONG))[0] == 42281
    assert small.register("s", INT)["version"] == 2
    small.delete("s", 1)
    assert small.register("s", LONG)["version"] == 3


def test_a_schema_that_breaks_a_rule_is_refused_with_its_fix() -> None:
    small = governed('[[policy]]\nsubjects = ["s"]\nlint_errors = ["snake_case_fields", "docs"]')
    code, message = small.refusal(Register("s", record("R", "orderId", doc="An order")))
    assert code == 42280
    assert message == (
        "The schema violates lint rules for subject 's': "
        "snake_case_fields at R.orderId: the field's name `orderId` is not in snake_case; "
        "use lower-case words joined by underscores; "
        "docs at R.orderId: `orderId` has no documentation; "
        "describe it in `doc` (Avro) or `description` (JSON Schema)"
    )


def test_rules_are_not_applied_to_what_is_registered_already() -> None:
    small = SmallRegistry()
    first = small.register("s", record("R", "orderId"))
    small.defaults = Defaults(policies=parse('[[policy]]\nsubjects = ["s"]\nlint_errors = ["docs"]'))
    assert small.register("s", record("R", "orderId")) == first


def test_imports_have_no_policy() -> None:
    small = governed('[[policy]]\nsubjects = ["*"]\nregister = []\nlint_errors = ["docs"]')
    small.submit(PutMode(None, "IMPORT", "IMPORT"))
    assert small.place("s", record("R", "a"), schema_id=7) == (7, 1)


def test_the_most_specific_pattern_that_sets_a_limit_counts() -> None:
    policies = parse(
        """
        [[policy]]
        subjects = ["*"]
        versions_max = 10
        register = ["ci"]

        [[policy]]
        subjects = ["orders-*", ":.eu:*"]
        versions_max = 5

        [[policy]]
        subjects = ["orders-value"]
        register = ["*"]
        """
    )

    def limits(subject: str) -> tuple[int, bool]:
        found = policies.policy(Subject.parse(subject), Principal("bob"))
        return found.versions_max, found.may_register

    assert limits("orders-value") == (5, True)
    assert limits("orders-key") == (5, False)
    assert limits(":.eu:orders-value") == (5, False)
    assert limits("payments") == (10, False)


def test_without_a_covering_table_everything_is_permitted() -> None:
    policies = parse('[[policy]]\nsubjects = ["orders"]\nregister = []')
    assert policies.policy(Subject.parse("orders-2"), ANONYMOUS).may_register
    assert policies.policy(Subject.parse(":.eu:orders"), ANONYMOUS).may_register
    assert Policies().policy(Subject.parse("orders"), ANONYMOUS).may_register


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy = 1", "policy must be an array of tables, [[policy]]"),
        ("[[policy", "not TOML: "),
        ("[[policies]]", "the file: unknown key policies; allowed are policy, writes_per_minute"),
        ("[[policy]]\ncreate = []", "policy 1: subjects is missing"),
        ("[[policy]]\nsubjects = []", "policy 1: subjects is empty"),
        ("[[policy]]\nsubjects = ['a*b']", "policy 1: subjects: 'a*b' is not a subject"),
        ("[[policy]]\nsubjects = [':.eu*']", "policy 1: subjects: ':.eu*' must name its context in full"),
        ("[[policy]]\nsubjects = ['a']\nversion_max = 1", "policy 1: unknown key version_max; allowed are"),
        ("[[policy]]\nsubjects = ['a']\nversions_max = 0", "policy 1: versions_max must be a whole number"),
        ("[[policy]]\nsubjects = ['a']\nversions_max = true", "policy 1: versions_max must be a whole"),
        ("[[policy]]\nsubjects = ['a']\ncreate = 'bob'", "policy 1: create must be an array of strings"),
        ("[[policy]]\nsubjects = ['a']\nlint_errors = ['doc']", "policy 1: lint_errors: unknown rule doc;"),
        ("writes_per_minute = -1", "the file: writes_per_minute must be a whole number from 1"),
        ("#" * (1 << 20) + "\n", "the file is longer than 1048576 characters"),
    ],
)
def test_a_file_that_is_not_understood_says_where(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse(text)
    assert str(refused.value).startswith(message)
