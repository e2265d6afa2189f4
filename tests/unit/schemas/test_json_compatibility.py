"""Who can read what: the verdicts for JSON schemas, and Confluent's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.domain.schemas import FORMATS, Budget, Dependency, Exhausted, InvalidSchema
from registry.domain.schemas.json_schema import changes
from registry.domain.schemas.json_schema.compatibility import compare

JSON = FORMATS["JSON"]
CASES = json.loads((Path(__file__).parents[2] / "corpus" / "json_schema_compatibility.json").read_text())


def parsed(schema, *dependencies):
    return JSON.parse(schema if type(schema) is str else json.dumps(schema), dependencies, new=True)


def found(old, new):
    told = compare(parsed(old).node(), parsed(new).node(), Budget()).changes(Budget())
    return [f"{change} {path}" for change, path in told]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_changes_in_both_directions(case):
    assert found(case["old"], case["new"]) == case["changes"], case["reason"]
    assert found(case["new"], case["old"]) == case["reverse_changes"], case["reason"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_verdicts_in_both_directions(case):
    old, new = parsed(case["old"]), parsed(case["new"])
    backward, forward = JSON.differences(new, old, "new"), JSON.differences(old, new, "old")
    assert (not backward, not forward) == (case["backward"], case["forward"]), case["reason"]
    for told, all_changes in ((backward, case["changes"]), (forward, case["reverse_changes"])):
        assert [f"{each.type} {each.path}" for each in told] == [
            each for each in all_changes if each.split()[0] not in changes.HARMLESS
        ]
