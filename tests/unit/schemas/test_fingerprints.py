"""Fingerprints are equal for equivalent schemas."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.schemas import FORMATS, Dependency, Fingerprints, InvalidSchema, Schema
from tests.unit.schemas.protobuf import Files
from tests.unit.schemas.test_avro_properties import SEEDS, Builder
from tests.unit.schemas.test_protobuf_properties import PIECES

CORPUS = Path(__file__).parents[2] / "corpus"
FILES = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
AVRO, PROTOBUF = FORMATS["AVRO"], FORMATS["PROTOBUF"]


def texts(schema_type: str) -> list[str]:
    pairs = json.loads((CORPUS / f"{FILES[schema_type]}_compatibility.json").read_bytes())
    sides = [each[side] for each in pairs for side in ("old", "new")]
    return list(dict.fromkeys(each if isinstance(each, str) else json.dumps(each) for each in sides))


def parsed(schema_type: str) -> list[Schema]:
    found = []
    for text in texts(schema_type):
        try:
            found.append(FORMATS[schema_type].parse(text))
        except InvalidSchema:
            continue
    return found


def shuffled(rng: random.Random, value: Any) -> Any:
    """Return the value with the members of all objects in another order."""
    if isinstance(value, dict):
        members = [(key, shuffled(rng, each)) for key, each in value.items()]
        rng.shuffle(members)
        return dict(members)
    return [shuffled(rng, each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("schema_type", FILES)
def test_over_the_corpus(schema_type: str) -> None:
    """Two schemas of the corpus have equal fingerprints only if they are equivalent."""
    schemas = parsed(schema_type)
    prints = [each.fingerprints() for each in schemas]
    rng = random.Random(1)

    outlined = [FORMATS[schema_type].outline(each.canonical) for each in schemas]
    assert None not in outlined
    for (one, said), (other, told) in combinations(zip(schemas, prints, strict=True), 2):
        assert one.equivalent(other) == (said.own == told.own)
        if said.own == told.own:
            assert_outlines_agree(schema_type, one.canonical, other.canonical)
    for text, said in zip([each.canonical for each in schemas], prints, strict=True):
        assert FORMATS[schema_type].parse(text).fingerprints() == said
        if schema_type == "AVRO":
            otherwise = json.dumps(shuffled(rng, json.loads(text)))
            again = AVRO.parse(otherwise)
            assert_outlines_agree("AVRO", text, otherwise)
            assert again.fingerprints() == said


def assert_outlines_agree(schema_type: str, one: str, other: str) -> None:
    """Outlines of equivalent schemas are equal, unless a quick look at either text is not enough."""
    outlines = [FORMATS[schema_type].outline(each) for each in (one, other)]
    assert None in outlines or outlines[0] == outlines[1]


RECORD = '{"type":"record","name":%s,"fields":[{"name":"a","type":%s}]}'
SAME = [
    ("AVRO", '"int"', '{"type":"int"}'),
    ("AVRO", '"int"', '{"type":"int","name":"ignored"}'),
    ("AVRO", RECORD % ('"n.R"', '"int"'), RECORD % ('"R","namespace":"n"', '{"type":"int"}')),
    ("AVRO", RECORD % ('"n.R"', '"int"'), RECORD % ('"n.R","namespace":"m"', '"int"')),
    ("AVRO", RECORD % ('"n.R"', '["null","n.R"]'), RECORD % ('"n.R"', '["null","R"]')),
    ("AVRO", RECORD % ('"R"', '"float","default":"1.5"'), RECORD % ('"R"', '"float","default":1.5')),
    ("AVRO", RECORD % ('"R"', '"int"'), RECORD % ('"R","doc":7,"doc":null', '"int","order":"ASCENDING"')),
    (
        "AVRO",
        RECORD % ('"R"', '{"type":"double"},"default":"2"'),
        RECORD % ('"R"', '"double","default":"2.0"'),
    ),
    (
        "AVRO",
        RECORD % ('"R"', '{"type":"float","x":1},"default":"2"'),
        RECORD % ('"R"', '{"x":1,"type":"float"},"default":2.0'),
    ),
    (
        "AVRO",
        RECORD % ('"R"', '["string"],"default":"2"'),
        RECORD % ('"R"', '["string"],"default":"\\u0032"'),
    ),
    ("AVRO", RECORD % ('"R"', '"long","default":-0'), RECORD % ('"R"', '"long","default":0')),
    ("AVRO", RECORD % ('"R","doc":"b"', '"int"'), RECORD % ('"R","doc":"a","doc":"b"', '"int"')),
    ("AVRO", RECORD % ('"R"', '"int"'), RECORD % ('"R","aliases":[]', '"int","aliases":[]')),
    ("AVRO", RECORD % ('"R","x":1.5', '"int"'), RECORD % ('"R","x":15e-1', '"int"')),
    ("AVRO", RECORD % ('"R","x":-0', '"int"'), RECORD % ('"R","x":0', '"int"')),
    ("AVRO", RECORD % ('"R"', '"int"'), "/* said */ " + RECORD % ('"R"', '"int"')),
    ("AVRO", RECORD % ('"\\u0052"', '"int"'), RECORD % ('"R"', '"int"')),
    ("JSON", '{"minimum":1.5,"title":"a"}', '{"minimum":15e-1,"title":"\\u0061"}'),
    ("JSON", '{"title":"b"}', '{"title":"a","title":"b"}'),
    ("JSON", '{"a":1,"title":"b"}', '{"a":2,"title":"b","a":1}'),
    ("PROTOBUF", "message M {optional string a=0x10;}", "message M { optional string a = 16; } // a = 1"),
    ("PROTOBUF", "message M {} enum E {A=0; B=-1;}", "enum E { A = 0; B = -1; } ; message M { }"),
    (
        "PROTOBUF",
        "option (o) . b = 1; message M { map<string,A> a = 1; }",
        "message M { map < string , A > a = 1 ; } option (o).b = 1;",
    ),
    (
        "PROTOBUF",
        "message M {oneof o {string b=2 [(x) . y = 1, deprecated = true];} repeated A a = 1;}",
        "message M { repeated A a = 1; oneof o { string b = 2 [(x).y = 1, deprecated = true]; } }",
    ),
    ("PROTOBUF", "extend E {optional group G = 1 {optional A a = 2;}}", "extend E {}"),
    (
        "PROTOBUF",
        "message M { extensions 4 to 9 [declaration = {number: 4}]; }",
        "message M { extensions 4 to 9; }",
    ),
    ("PROTOBUF", "enum E { option o = 1; A = 1 [o = 2]; }", "enum E { option o = 1 ; A = 1 [o=2]; }"),
    (
        "PROTOBUF",
        "option o = {a: 1 b {c: 2}}; message M {}",
        "message M {} option o={a:1 b:{c:2}};",
    ),
]


@pytest.mark.parametrize(("schema_type", "one", "other"), SAME)
def test_outlines_do_not_depend_on_how_the_same_is_said(schema_type: str, one: str, other: str) -> None:
    read = [FORMATS[schema_type].parse(each) for each in (one, other)]

    assert read[0].equivalent(read[1])
    assert_outlines_agree(schema_type, one, other)


def test_an_outline_distinguishes_versions_of_one_schema() -> None:
    says = [
        RECORD % ('"R"', '"int"'),
        RECORD % ('"R","doc":"d"', '"int"'),
        RECORD % ('"R"', '"int","doc":"d"'),
        RECORD % ('"R"', '"int","default":1'),
        RECORD % ('"R"', '"int","default":2'),
        RECORD % ('"R"', '"string","default":"1"'),
        RECORD % ('"R"', '"string","default":"2"'),
        RECORD % ('"R"', '"boolean","default":true'),
        RECORD % ('"R"', '"boolean","default":false'),
        RECORD % ('"R"', RECORD % ('"S"', '"int"')),
        RECORD % ('"R"', RECORD % ('"S"', '"long"')),
        RECORD % ('"R"', '{"type":"int","logicalType":"date"}'),
    ]

    assert len({AVRO.outline(each) for each in says}) == len(says)


@given(SEEDS, st.integers(0, 3))
def test_the_outline_of_a_protobuf_file_is_that_of_its_canonical_text(seed: int, edits: int) -> None:
    text = Files(seed, edits).text()
    canonical = PROTOBUF.parse(text).canonical

    assert PROTOBUF.outline(text) is not None
    assert_outlines_agree("PROTOBUF", text, canonical)


@given(st.lists(st.sampled_from([*PIECES, "M {", "= 1;", "A = 2;", "optional A b = 3"]), max_size=30))
def test_the_outline_of_pieces_that_are_a_file_is_that_of_its_canonical_text(pieces: list[str]) -> None:
    text = "message M {" + " ".join(pieces)
    for each in (text, text + "}", text + "}}", text + "=1;}"):
        try:
            canonical = PROTOBUF.parse(each).canonical
        except InvalidSchema:
            continue
        assert_outlines_agree("PROTOBUF", each, canonical)


def test_a_descriptor_has_no_outline() -> None:
    read = PROTOBUF.parse("message M { optional string a = 1; }")

    assert PROTOBUF.outline(read.text_in("serialized")) is None


@pytest.mark.parametrize(
    "changed",
    [
        "string b = 1; int32 c = 2;",
        "string a = 3; int32 c = 2;",
        "int64 a = 1; int32 c = 2;",
        "string a = 1;",
    ],
)
def test_an_outline_distinguishes_versions_of_one_protobuf_schema(changed: str) -> None:
    text = 'syntax = "proto3"; message M { %s }'

    assert PROTOBUF.outline(text % changed) != PROTOBUF.outline(text % "string a = 1; int32 c = 2;")


@given(SEEDS)
def test_the_order_of_members_does_not_count_in_avro(seed: int) -> None:
    rng = random.Random(seed)
    value = Builder(rng, sound=True).schema()
    one, other = AVRO.parse(json.dumps(value)), AVRO.parse(json.dumps(shuffled(rng, value)))

    assert one.equivalent(other)
    assert one.fingerprints() == other.fingerprints()
    assert_outlines_agree("AVRO", json.dumps(value), json.dumps(shuffled(rng, value)))


@given(SEEDS)
def test_a_change_counts_in_avro_where_it_counts_for_the_comparison(seed: int) -> None:
    rng = random.Random(seed)
    value = Builder(rng, sound=True).schema()
    changed = json.loads(json.dumps(value))
    _change(rng, changed)
    try:
        one, other = AVRO.parse(json.dumps(value)), AVRO.parse(json.dumps(changed))
    except InvalidSchema:
        return

    assert not one.equivalent(other) or one.fingerprints() == other.fingerprints()
    if one.equivalent(other):
        assert_outlines_agree("AVRO", json.dumps(value), json.dumps(changed))


def _change(rng: random.Random, value: Any) -> None:
    """Change, add or remove something at a random place."""
    objects = [value]
    for each in objects:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        objects += [item for item in inner if isinstance(item, dict | list)]
    chosen = rng.choice(objects)
    if isinstance(chosen, dict):
        key = rng.choice([*chosen, "doc", "aliases", "default", "order", "x"])
        other = rng.choice([None, 1, 1.0, True, "1", [1], [1.0], {"a": 1}, "int", ["a"], "descending"])
        chosen[key] = other
    elif isinstance(chosen, list) and chosen:
        chosen[rng.randrange(len(chosen))] = rng.choice(["int", 1, 1.0, "x"])


def test_what_is_referred_to_may_stand_inline() -> None:
    inner = '{"type":"record","name":"n.In","fields":[{"name":"a","type":"int"}]}'
    uses = '{"type":"record","name":"n.Out","fields":[{"name":"x","type":%s},{"name":"y","type":"In"}]}'
    referring = AVRO.parse(uses % '"In"', [Dependency("In", inner)])
    inline = AVRO.parse(uses % inner)
    other = AVRO.parse(uses % inner.replace('"int"', '"long"'))

    assert inline.equivalent(referring)
    assert _outer(inline) == _outer(referring)
    outlines = [AVRO.outline(uses % each) for each in ('"In"', inner)]
    assert len({each.outer for each in outlines if each is not None}) == 1
    assert inline.fingerprints().own != other.fingerprints().own


def _outer(schema: Schema) -> bytes:
    found: Fingerprints = schema.fingerprints()
    return found.outer
