"""Changes and compatibility of Protobuf schemas: Confluent 8.x's results and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.schemas import Budget, Exhausted
from registry.domain.schemas.protobuf.compatibility import changes
from tests.unit.schemas.protobuf import PROTOBUF, Files, parse

CASES = json.loads((Path(__file__).parents[2] / "corpus" / "protobuf_compatibility.json").read_text())
SEEDS = st.integers(0, 2**32)


def found(old, new):
    return [
        f"{each.type} {each.path}" for each in changes((old.file, old.names), (new.file, new.names), Budget())
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_changes_in_both_directions(case):
    old, new = parse(case["old"], case.get("old_references")), parse(case["new"], case.get("new_references"))
    verdicts = (
        not PROTOBUF.differences(new, old, "new"),
        not PROTOBUF.differences(old, new, "old"),
    )

    assert verdicts == (case["backward"], case["forward"]), case["reason"]
    assert found(old, new) == case["backward_changes"]
    assert found(new, old) == case["forward_changes"]


def test_the_corpus_is_large_and_has_every_kind_of_change():
    kinds = {text.split()[0] for case in CASES for text in case["backward_changes"] + case["forward_changes"]}

    assert len(CASES) >= 80
    assert len({case["case"] for case in CASES}) == len(CASES)
    assert kinds == {
        "ENUM_ADDED",
        "ENUM_CONST_ADDED",
        "ENUM_CONST_CHANGED",
        "ENUM_CONST_REMOVED",
        "ENUM_REMOVED",
        "FIELD_ADDED",
        "FIELD_KIND_CHANGED",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
        "FIELD_NAMED_TYPE_CHANGED",
        "FIELD_NAME_CHANGED",
        "FIELD_NUMERIC_LABEL_CHANGED",
        "FIELD_REMOVED",
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_STRING_OR_BYTES_LABEL_CHANGED",
        "MESSAGE_ADDED",
        "MESSAGE_MOVED",
        "MESSAGE_REMOVED",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
        "ONEOF_ADDED",
        "ONEOF_FIELD_ADDED",
        "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
        "ONEOF_FIELD_REMOVED",
        "ONEOF_REMOVED",
        "PACKAGE_CHANGED",
        "REQUIRED_FIELD_ADDED",
        "REQUIRED_FIELD_REMOVED",
    }


def test_messages_name_who_reads_and_who_wrote():
    old = parse('syntax = "proto3"; message M { string a = 1; }')
    new = parse('syntax = "proto3"; message M { map<string, string> a = 1; }')

    (backward,) = PROTOBUF.differences(new, old, "new")
    (forward,) = PROTOBUF.differences(old, new, "old")

    assert backward.text == (
        '{errorType:"FIELD_KIND_CHANGED", description:"The type of a field at path \'#/M/1\' in the new '
        'schema does not match the old schema"}'
    )
    assert "in the old schema does not match the new schema" in forward.text


@given(SEEDS)
def test_every_file_reads_itself(seed):
    schema = parse(Files(seed).text())

    assert found(schema, schema) == []
    assert found(schema, parse(schema.normalized)) == []


@given(SEEDS, st.integers(1, 2**32))
def test_what_is_added_one_way_is_removed_the_other(seed, edits):
    old, new = parse(Files(seed).text()), parse(Files(seed, edits).text())
    there, back = found(old, new), found(new, old)

    turned = {"ADDED": "REMOVED", "REMOVED": "ADDED"}
    for kind in ("MESSAGE", "ENUM", "ENUM_CONST", "FIELD"):
        for was, becomes in turned.items():
            one_way = {text for text in there if text.split()[0] == f"{kind}_{was}"}
            assert {text.replace(was, becomes, 1) for text in one_way} == {
                text for text in back if text.split()[0] == f"{kind}_{becomes}"
            }


def chain(length, last):
    """Return files that each name a message of the one before, and the text of the last."""
    files = {"p0.proto": f'syntax = "proto3"; package p0; message M {{ {last} a = 1; }}'}
    for at in range(1, length):
        files[f"p{at}.proto"] = (
            f'syntax = "proto3"; package p{at}; import "p{at - 1}.proto"; '
            f"message M {{ p{at - 1}.M a = 1; p{at - 1}.M b = 2; }}"
        )
    return files


def test_long_chains_of_references_are_compared_once_each():
    text = 'syntax = "proto3"; message Top { p1999.M a = 1; }'
    old, new = parse(text, chain(2000, "string")), parse(text, chain(2000, "int32"))

    differences = PROTOBUF.differences(new, old, "new")

    assert len(differences) == 1 + 2 * 1999 + 1
    assert differences[-1].path == "#/Top/1"


def test_a_comparison_ends_with_its_budget():
    fields = " ".join(f"string f{at} = {at};" for at in range(1, 200))
    schema = parse(f'syntax = "proto3"; message M {{ {fields} }}')

    with pytest.raises(Exhausted):
        PROTOBUF.differences(schema, schema, "new", Budget(100))
