"""The config and the mode that apply to a subject."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.model import Subject
from registry.domain.queries import scope
from registry.domain.queries.scope import Defaults
from tests.unit.small_registry import SmallRegistry

TOP, EVERYWHERE, CONTEXT = None, ":.__GLOBAL:", ":.ctx:"


def level(small: SmallRegistry, subject: str, default: str = "BACKWARD") -> str | None:
    config = scope.config_in_scope(small.view, Subject.parse(subject), Defaults(compatibility=default))
    return config.compatibility_level


@pytest.mark.parametrize(
    ("stored", "subject", "expected"),
    [
        ([], "s", "BACKWARD"),
        ([], ":.ctx:s", "BACKWARD"),
        ([("s", "NONE")], "s", "NONE"),
        ([("s", "NONE")], ":.ctx:s", "BACKWARD"),
        ([(TOP, "FULL")], "s", "FULL"),
        ([(TOP, "FULL")], ":.ctx:s", "BACKWARD"),
        ([(EVERYWHERE, "FORWARD")], "s", "FORWARD"),
        ([(EVERYWHERE, "FORWARD")], ":.ctx:s", "FORWARD"),
        ([(EVERYWHERE, "FORWARD"), (TOP, "FULL")], "s", "FULL"),
        ([(EVERYWHERE, "FORWARD"), (TOP, "FULL")], ":.ctx:s", "FORWARD"),
        ([(EVERYWHERE, "FORWARD"), (CONTEXT, "NONE")], ":.ctx:s", "NONE"),
        ([(CONTEXT, "NONE")], "s", "BACKWARD"),
        ([(CONTEXT, "NONE"), (":.ctx:s", "FULL")], ":.ctx:s", "FULL"),
        ([(CONTEXT, "NONE")], CONTEXT, "NONE"),
        ([(EVERYWHERE, "FORWARD")], CONTEXT, "FORWARD"),
        ([(EVERYWHERE, "FORWARD")], ":.:", "FORWARD"),
    ],
)
def test_the_level_in_scope(
    small: SmallRegistry, stored: list[tuple[str | None, str]], subject: str, expected: str
) -> None:
    for where, value in stored:
        small.level(where, value)
    assert level(small, subject) == expected


def test_a_config_without_level_has_the_servers_not_the_top_levels(small: SmallRegistry) -> None:
    small.level(TOP, "NONE")
    small.config("s", normalize=True)
    assert level(small, "s", "FULL") == "FULL"
    small.config(":.ctx:", normalize=True)
    assert level(small, ":.ctx:s", "FULL") == "FULL"


@pytest.mark.parametrize("subject", ["s", ":.ctx:s"])
def test_six_members_fall_back_to_the_top_level_even_from_another_context(
    small: SmallRegistry, subject: str
) -> None:
    inherited: dict[str, Any] = {
        "normalize": True,
        "validateFields": True,
        "validateNewSchemas": False,
        "validateRules": True,
        "compatibilityPolicy": "LENIENT",
        "compatibilityGroup": "g",
    }
    own = {"alias": "a", "compatibilityLevel": "NONE", "defaultMetadata": {"properties": {"k": "v"}}}
    small.config(TOP, **inherited, **own)
    small.config(CONTEXT, normalize=False)
    small.config(subject, aliasForDeks="x")
    config = scope.config_in_scope(small.view, Subject.parse(subject), Defaults())
    assert config == scope.Config(
        alias_for_deks="x",
        normalize=True,
        validate_fields=True,
        validate_new_schemas=False,
        validate_rules=True,
        compatibility_level="BACKWARD",
        compatibility_policy="LENIENT",
        compatibility_group="g",
    )


def test_own_members_stay(small: SmallRegistry) -> None:
    """Members that a subject's own config sets are not taken from the scopes above."""
    small.config(TOP, normalize=True, compatibilityGroup="top")
    small.config("s", normalize=False)
    config = scope.config_in_scope(small.view, Subject.parse("s"), Defaults())
    assert (config.normalize, config.compatibility_group) == (False, "top")


def test_the_exact_config_is_one_scopes_own(small: SmallRegistry) -> None:
    small.level(TOP, "FULL")
    assert scope.exact_config(small.view, Subject.parse("s"), Defaults()) is None
    assert scope.exact_config(small.view, Subject.parse(CONTEXT), Defaults()) is None
    at_top = scope.exact_config(small.view, Subject.parse(":.:"), Defaults())
    assert at_top == scope.Config(compatibility_level="FULL")
    everywhere = scope.exact_config(small.view, Subject.parse(EVERYWHERE), Defaults(compatibility="NONE"))
    assert everywhere == scope.Config(compatibility_level="NONE")
    small.config("s", normalize=True)
    own = scope.exact_config(small.view, Subject.parse("s"), Defaults())
    assert own == scope.Config(normalize=True, compatibility_level="BACKWARD")


@pytest.mark.parametrize(
    ("stored", "subject", "expected"),
    [
        ([], "s", "READWRITE"),
        ([("s", "READONLY")], "s", "READONLY"),
        ([(TOP, "READONLY")], "s", "READONLY"),
        ([(TOP, "READONLY")], ":.ctx:s", "READWRITE"),
        ([(CONTEXT, "IMPORT")], ":.ctx:s", "IMPORT"),
        ([(EVERYWHERE, "FORWARD")], "s", "FORWARD"),
        ([(EVERYWHERE, "FORWARD"), (TOP, "READONLY")], "s", "READONLY"),
        ([(EVERYWHERE, "READONLY_OVERRIDE"), ("s", "READWRITE")], "s", "READWRITE"),
    ],
)
def test_the_mode_in_scope(
    small: SmallRegistry, stored: list[tuple[str | None, str]], subject: str, expected: str
) -> None:
    for where, mode in stored:
        small.mode(where, mode)
    assert scope.mode_in_scope(small.view, Subject.parse(subject)) == expected


@pytest.mark.parametrize(
    ("subject", "alias", "target"),
    [
        ("s", "t", "t"),
        (":.ctx:s", "t", ":.ctx:t"),
        (":.ctx:s", ":.:t", "t"),
        ("s", "", "s"),
        (":.ctx:", "t", ":.ctx:"),
    ],
)
def test_an_alias_is_one_step_and_qualified_by_the_original(
    small: SmallRegistry, subject: str, alias: str, target: str
) -> None:
    small.config(subject, alias=alias)
    small.config("t", alias="further")
    assert scope.resolve_alias(small.view, Subject.parse(subject)).qualified == target


def test_defaults_stand_in_for_what_a_config_does_not_say() -> None:
    strict, silent = Defaults(validate_fields=True, validate_new_schemas=False), scope.Config()
    said = scope.Config(validate_fields=False, validate_new_schemas=True)
    assert scope.validates_fields(silent, strict)
    assert not scope.validates_fields(said, strict)
    assert not scope.validates_new_schemas(silent, strict)
    assert scope.validates_new_schemas(said, strict)
