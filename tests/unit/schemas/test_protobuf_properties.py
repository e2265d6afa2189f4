"""Laws of the Protobuf parser and of its texts over random files, and hostile input."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.schemas import InvalidSchema
from tests.unit.schemas.protobuf import Files, parse

SEEDS = st.integers(0, 2**32)
PIECES = (
    *'{}[]()<>;=,.:"/\\-+\n',
    *("message ", "enum ", "oneof ", "map<", "reserved ", "extensions ", "extend ", "to ", "max ", "option "),
    *(
        "group ",
        "rpc ",
        "returns ",
        "stream ",
        "service ",
        "import ",
        "package ",
        "syntax ",
        "//",
        "/*",
        "*/",
    ),
    *('"proto3"', '"proto2"', "A ", "b ", "1 ", "-2 ", "0x1f ", "string ", "optional ", "default ", "\\x"),
)


@given(SEEDS)
def test_the_canonical_text_says_the_same_and_stays(seed):
    schema = parse(Files(seed).text(), new=True)
    again = parse(schema.canonical)

    assert again.canonical == schema.canonical
    assert again.normalized == schema.normalized
    assert schema.equivalent(again)


@given(SEEDS)
def test_the_normal_text_stays(seed):
    normal = parse(Files(seed).text()).normalized

    assert parse(normal).normalized == normal


@given(SEEDS)
def test_descriptors_say_the_same(seed):
    schema = parse(Files(seed, custom=False).text())
    from_descriptor = parse(schema.text_in("serialized"), new=True)

    assert from_descriptor.normalized == schema.normalized


@given(SEEDS)
def test_valid_files_are_what_protobuf_takes(seed):
    parse(Files(seed).text()).check_fields()


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_pieces_of_files_are_schemas_or_refused(text):
    try:
        schema = parse(text)
    except InvalidSchema:
        return
    assert parse(schema.canonical).canonical == schema.canonical
    for look in (
        schema.field_names,
        schema.check_fields,
        lambda: schema.normalized,
        lambda: schema.text_in("serialized"),
    ):
        try:
            look()
        except InvalidSchema:
            continue


@given(SEEDS, st.integers(0, 10_000), st.text(string.printable, max_size=3), st.integers(0, 5))
def test_damaged_files_are_schemas_or_refused(seed, at, put, dropped):
    text = Files(seed).text()
    at %= len(text)
    try:
        parse(text[:at] + put + text[at + dropped :], new=True)
    except InvalidSchema:
        return


@given(st.binary(max_size=60))
def test_bytes_are_descriptors_or_refused(data):
    try:
        schema = parse(base64.b64encode(data).decode())
    except InvalidSchema:
        return
    assert parse(schema.canonical).canonical == schema.canonical


@given(SEEDS, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4))
def test_damaged_descriptors_are_schemas_or_refused(seed, changes):
    data = bytearray(base64.b64decode(parse(Files(seed).text()).text_in("serialized")))
    for at, byte in changes:
        data[at % len(data)] = byte
    try:
        schema = parse(base64.b64encode(data).decode())
        schema.text_in("serialized")
    except InvalidSchema:
        return
    assert parse(schema.canonical).canonical == schema.canonical


@pytest.mark.parametrize(
    "text",
    [
        "message M {" * 50_000,
        'syntax = "proto3"; option (a) = ' + "{a:" * 50_000,
        'syntax = "proto3"; option (a) = ' + "[" * 50_000,
        "/*" * 50_000,
        "//" * 50_000 + "\nx",
        '"' * 50_001,
        'syntax = "proto3"; message M { int32 a = ' + "9" * 50_000 + "; }",
        "a." * 50_000,
        "\ud800",
        "\x00",
    ],
    ids=lambda text: text[:30],
)
def test_hostile_texts_are_refused(text):
    with pytest.raises(InvalidSchema):
        parse(text)


def test_messages_are_nested_as_deep_as_descriptors_can_be():
    deepest = 'syntax = "proto3"; ' + "message M { " * 100 + "}" * 100
    schema = parse(deepest, new=True)

    assert parse(schema.canonical).canonical == schema.canonical
    assert schema.text_in("serialized")
    with pytest.raises(InvalidSchema, match="nested more than 100 deep"):
        parse('syntax = "proto3"; ' + "message M { " * 101 + "}" * 101)


def test_thousands_of_messages_and_fields_are_read_at_once():
    fields = " ".join(f"string f{at} = {at};" for at in range(1, 50))
    messages = " ".join(f"message M{at} {{ {fields} M{at} self = 50; }}" for at in range(300))
    schema = parse(f'syntax = "proto3"; package p; {messages}', new=True)

    assert schema.canonical.count("message ") == 300


def test_much_of_the_same_is_read_at_once():
    tags = ", ".join(f'(confluent.field_meta).tags = "t{at}"' for at in range(20_000))
    members = " ".join(f"m: {at}" for at in range(100_000))
    text = f'syntax = "proto3"; option (a) = {{ {members} }}; message M {{ string s = 1 [{tags}]; }}'

    normal = parse(text).normalized

    assert normal.count('"t') == 20_000
    assert normal.count("(confluent.field_meta)") == 1


def test_short_lines_that_would_grow_without_end_are_refused():
    deep = "{a:" * 95 + "{" + "b:1 " * 100_000 + "}" * 96

    with pytest.raises(InvalidSchema, match="when it is printed"):
        parse(f"option (o) = {deep};", new=True)
