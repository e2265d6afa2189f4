"""Conditions of writes: what If-Match and If-None-Match let happen to what is there, and to what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.domain.commands import Condition, DeleteConfig, PutConfig
from registry.domain.model import Subject
from registry.domain.queries import entities, scope
from tests.unit.small_registry import SmallRegistry

CHANGE = PutConfig("s", {"compatibilityLevel": "NONE"})


def tag(small: SmallRegistry) -> str:
    config = scope.exact_config(small.view, Subject.parse("s"), small.defaults)
    assert config is not None
    return entities.body_tag(entities.config_entity(config))


@pytest.mark.parametrize(
    ("match", "none_match", "creates", "changes"),
    [
        (None, None, True, True),
        (["*"], None, False, True),
        (["this"], None, False, True),
        (["other"], None, False, False),
        (["other", "this"], None, False, True),
        (None, ["*"], True, False),
        (None, ["this"], True, False),
        (None, ["other"], True, True),
        (["*"], ["this"], False, False),
        (["this"], ["other"], False, True),
    ],
)
def test_a_write_happens_only_to_what_its_condition_lets_it(
    match: list[str] | None, none_match: list[str] | None, creates: bool, changes: bool
) -> None:
    for is_there, allowed in ((False, creates), (True, changes)):
        small = SmallRegistry()
        this = ""
        if is_there:
            small.config("s", compatibilityLevel="FULL")
            this = tag(small)
        given = [each and [this if name == "this" else name for name in each] for each in (match, none_match)]
        small.defaults = replace(small.defaults, condition=Condition(*given))
        if allowed:
            assert small.submit(CHANGE) == {"compatibility": "NONE"}
        else:
            assert small.refusal(CHANGE)[0] == 41280


def test_a_deletion_of_what_is_not_there_is_refused_as_without_a_condition(small: SmallRegistry) -> None:
    refused = small.refusal(DeleteConfig("s"))
    small.defaults = replace(small.defaults, condition=Condition(["other"], None))
    assert small.refusal(DeleteConfig("s")) == refused
