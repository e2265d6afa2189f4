"""Changes of config: merging, replies, records, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.commands import DeleteConfig, PutConfig, Register
from registry.domain.log_format.records import Entry
from registry.domain.model import Rule, RuleSet
from tests.unit.small_registry import SmallRegistry

LEVELS_TEXT = (
    "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive"
)


def test_a_put_writes_the_config_and_answers_the_level_as_compatibility(small: SmallRegistry) -> None:
    assert small.config("s", compatibilityLevel="full") == {"compatibility": "FULL"}
    (entry,) = small.last
    assert entry.key == b'{"keytype":"CONFIG","subject":"s","magic":0}'
    assert entry.value == b'{"subject":"s","compatibilityLevel":"FULL"}'


def test_the_top_level_has_no_subject(small: SmallRegistry) -> None:
    small.config(None, compatibilityLevel="NONE")
    assert small.last == [Entry(b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"NONE"}')]
    small.config(":.:", compatibilityLevel="FULL")
    assert small.last[0].key == b'{"keytype":"CONFIG","magic":0}'


@pytest.mark.parametrize(
    ("patch", "merged"),
    [
        ({}, {"normalize": True, "compatibility": "FULL", "compatibilityGroup": "g"}),
        ({"normalize": None}, {"compatibility": "FULL", "compatibilityGroup": "g"}),
        ({"compatibilityLevel": "none", "alias": "a"}, {
            "alias": "a", "normalize": True, "compatibility": "NONE", "compatibilityGroup": "g",
        }),
        ({"compatibilityGroup": ""}, {"normalize": True, "compatibility": "FULL"}),
        ({"compatibilityPolicy": "lenient"}, {
            "normalize": True, "compatibility": "FULL",
            "compatibilityPolicy": "LENIENT", "compatibilityGroup": "g",
        }),
        ({"compatibilityLevel": "full_used", "normalize": True}, {
            "normalize": True, "compatibility": "FULL_TRANSITIVE", "compatibilityGroup": "g",
            "compatibilityUsed": True,
        }),
        ({"compatibilityPolicy": "odd", "somethingElse": 1}, {
            "normalize": True, "compatibility": "FULL", "compatibilityGroup": "g",
        }),
    ],
)  # fmt: skip
def test_a_put_merges(small: SmallRegistry, patch: dict[str, Any], merged: dict[str, Any]) -> None:
    """A PUT changes the members that it names and keeps the others."""
    small.config("s", normalize=True, compatibilityLevel="FULL", compatibilityGroup="g")
    assert small.config("s", **patch) == merged
    assert small.config("s") == merged


def test_an_empty_put_makes_an_empty_config(small: SmallRegistry) -> None:
    assert small.config("s") == {}
    assert small.drop_config("s") == {"compatibilityLevel": "BACKWARD"}


def test_metadata_and_rules_are_kept_tidied(small: SmallRegistry) -> None:
    rules = RuleSet(domain_rules=[Rule("r", type="CEL", tags=["b", "a", "b"])])
    answer = small.config("s", defaultMetadata={"properties": {"b": "2", "a": "1"}}, overrideRuleSet=rules)
    assert list(answer["defaultMetadata"]["properties"]) == ["a", "b"]
    (rule,) = answer["overrideRuleSet"]["domainRules"]
    assert (rule["kind"], rule["mode"], rule["tags"]) == ("TRANSFORM", "WRITEREAD", ["a", "b"])


def test_a_delete_answers_the_old_config(small: SmallRegistry) -> None:
    small.config("s", normalize=True, compatibilityLevel="FULL")
    assert small.drop_config("s") == {"normalize": True, "compatibilityLevel": "FULL"}
    assert small.last == [Entry(b'{"keytype":"CONFIG","subject":"s","magic":0}', None)]
    assert small.refusal(DeleteConfig("s")) == (40401, "Subject 's' not found.")


def test_the_top_level_can_always_be_deleted(small: SmallRegistry) -> None:
    assert small.drop_config(None) == {"compatibilityLevel": "BACKWARD"}
    assert small.last == [Entry(b'{"keytype":"CONFIG","magic":0}', None)]
    assert small.drop_config(":.__GLOBAL:") == {"compatibilityLevel": "BACKWARD"}


@pytest.mark.parametrize("level", ["", "SIDEWAYS", 5])
def test_unknown_levels(small: SmallRegistry, level: object) -> None:
    command = PutConfig("s\0", {"compatibilityLevel": level, "defaultRuleSet": {"domainRules": [{}]}})
    assert small.refusal(command) == (42203, LEVELS_TEXT)


def test_the_order_of_refusals(small: SmallRegistry) -> None:
    small.mode(None, "READONLY")
    assert small.refusal(PutConfig("s\0", {"defaultRuleSet": {"domainRules": [{}]}}))[0] == 42210
    assert small.refusal(PutConfig("s\0", {})) == (42208, "The specified subject 's\0' is not a valid.")
    assert small.refusal(PutConfig("s", {})) == (42205, "Subject s in context  is in read-only mode")
    assert small.refusal(PutConfig(None, {})) == (42205, "Subject null in context  is in read-only mode")
    assert small.refusal(DeleteConfig(None))[0] == 42205
    assert small.refusal(DeleteConfig("s"))[0] == 40401


@pytest.mark.parametrize("patch", [{"alias": 5}, {"normalize": "yes"}, {"defaultMetadata": []}])
def test_members_of_another_type(small: SmallRegistry, patch: dict[str, Any]) -> None:
    assert small.refusal(PutConfig("s", patch))[0] == 400


def test_scopes_of_all_contexts_have_configs_and_hold_no_schemas(small: SmallRegistry) -> None:
    for scope in (":.__GLOBAL:", ":.__GLOBAL:s"):
        assert small.config(scope, compatibilityLevel="FULL") == {"compatibility": "FULL"}
    assert small.refusal(Register(":.__GLOBAL:s", '"string"'))[0] == 42208
