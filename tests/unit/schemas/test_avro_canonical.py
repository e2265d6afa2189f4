"""The stored text of an Avro schema, byte for byte. Every expected text was printed by Java Avro 1.12.1."""

from __future__ import annotations

import json

import pytest

from registry.domain.schemas import FORMATS

AVRO = FORMATS["AVRO"]


def record(*fields: str, more: str = "") -> str:
    return f'{{"type":"record","name":"R"{more},"fields":[{",".join(fields)}]}}'


UNCHANGED = [
    '"string"',
    '"null"',
    "[]",
    '["null","int"]',
    '{"type":"array","items":"int"}',
    '{"type":"map","values":["null",{"type":"array","items":"string"}]}',
    '{"type":"enum","name":"E","symbols":[]}',
    '{"type":"enum","name":"E","namespace":"a.b","doc":"d","symbols":["A","B"],"default":"A","p":1,"aliases":["F"]}',
    '{"type":"fixed","name":"F","doc":"","size":0,"logicalType":"unheard-of","aliases":["x.G"]}',
    '{"type":"error","name":"X","fields":[],"default":1,"zz":{"b":[1,2.5,null,true,{}],"a":[]}}',
    '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}',
    '{"type":"bytes","logicalType":"decimal","scale":9,"precision":4}',
    '{"type":"string","logicalType":"uuid","note":"é ü 漢 \U0001f600"}',
    record('{"name":"next","type":["null","R"],"default":null}'),
    record('{"name":"a","type":"int","doc":"d","default":1,"order":"ignore","aliases":["x","y"],"p":[1]}'),
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_a_canonical_text_stays_as_it_is(text):
    assert AVRO.parse(text).canonical == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (' {"type" : "string"} ', '"string"'),
        ('"string"\x00', '"string"'),
        ('{"type":"string","type":"int"}', '"int"'),
        ('/* c */ {"type": // c\n "int"}', '"int"'),
        (
            '{"symbols":["A"],"p":1,"name":"E","type":"enum"}',
            '{"type":"enum","name":"E","symbols":["A"],"p":1}',
        ),
        (
            '{"q":1,"scale":2,"type":"bytes","p":2,"logicalType":"decimal"}',
            '{"type":"bytes","q":1,"scale":2,"p":2,"logicalType":"decimal"}',
        ),
        (
            '{"size":4,"type":"fixed","aliases":["a.G"],"doc":"d","name":"a.b.F","namespace":"z"}',
            '{"type":"fixed","name":"F","namespace":"a.b","doc":"d","size":4,"aliases":["a.G"]}',
        ),
        (
            '{"type":"record","name":".R","namespace":"z","fields":[]}',
            '{"type":"record","name":"R","fields":[]}',
        ),
        ('{"type":"record","name":"R","doc":1,"fields":[]}', '{"type":"record","name":"R","fields":[]}'),
        ('{"type":"enum","name":"E","symbols":[],"default":1}', '{"type":"enum","name":"E","symbols":[]}'),
        ('{"type":"map","values":"int","size":1,"doc":"d"}', '{"type":"map","values":"int"}'),
        ('{"type":"int","default":5,"order":"x"}', '{"type":"int","default":5,"order":"x"}'),
    ],
)
def test_attributes_stand_in_javas_order(text, canonical):
    assert AVRO.parse(text).canonical == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1", "1"),
        ("1e2", "100.0"),
        ("1e10", "1.0E10"),
        ("1E-5", "1.0E-5"),
        ("-0.0", "-0.0"),
        ("0.1", "0.1"),
        ("0.001", "0.001"),
        ("0.00099", "9.9E-4"),
        ("9999999.0", "9999999.0"),
        ("10000000.0", "1.0E7"),
        ("123456789.5", "1.234567895E8"),
        ("4.9e-324", "4.9E-324"),
        ("2.2250738585072014e-308", "2.2250738585072014E-308"),
        ("2e23", "2.0E23"),
        ("1e400", '"Infinity"'),
        ('"NaN"', '"NaN"'),
        ('"-Infinity"', '"-Infinity"'),
        ('" 1.5f "', "1.5"),
        ('"0x1.8p1"', "3.0"),
        ("18446744073709551616", "18446744073709551616"),
        ("-1180591620717411303424", "-1180591620717411303424"),
    ],
)
def test_a_double_default_is_printed_as_java_prints_it(text, canonical):
    field = f'{{"name":"a","type":"double","default":{text}}}'

    assert AVRO.parse(record(field), new=True).canonical == record(field.replace(text, canonical))


def test_characters_above_ascii_are_literal_and_control_characters_in_upper_case():
    doc = '"\\u00e9\\ud83d\\ude00\\u007f\\u2028\\/\\u001f\\u000b\\u0008\\t\\"\\\\"'

    canonical = AVRO.parse(record(more=f',"doc":{doc}')).canonical

    assert canonical == record(more=',"doc":"é\U0001f600\x7f\u2028/\\u001F\\u000B\\b\\t\\"\\\\"')


def test_a_namespace_is_printed_where_it_changes_and_names_are_short_inside_it():
    text = record(
        '{"name":"w","type":{"type":"fixed","name":"F","size":1}}',
        '{"name":"x","type":{"type":"enum","name":"c.E","symbols":["A"]}}',
        '{"name":"y","type":{"type":"record","name":"N","namespace":"","fields":[{"name":"a","type":"a.b.F"}]}}',
        '{"name":"z","type":["F","c.E","N",{"type":"enum","name":"a.b.int","symbols":[]}]}',
        '{"name":"q","type":"a.b.int"}',
        more=',"namespace":"a.b"',
    )

    assert AVRO.parse(text).canonical == record(
        '{"name":"w","type":{"type":"fixed","name":"F","size":1}}',
        '{"name":"x","type":{"type":"enum","name":"E","namespace":"c","symbols":["A"]}}',
        '{"name":"y","type":{"type":"record","name":"N","namespace":"","fields":[{"name":"a","type":"a.b.F"}]}}',
        '{"name":"z","type":["F","c.E","N",{"type":"enum","name":"int","symbols":[]}]}',
        '{"name":"q","type":"a.b.int"}',
        more=',"namespace":"a.b"',
    )


def test_aliases_are_short_inside_their_namespace_and_named_once():
    text = '{"type":"fixed","name":"n.F","size":1,"aliases":["x","a.b","n.x","int",".c","F"]}'

    canonical = AVRO.parse(text).canonical

    expected = '{"type":"fixed","name":"F","namespace":"n","size":1,"aliases":["x","a.b","n.int","c","F"]}'
    assert canonical == expected


def test_a_type_may_be_defined_twice_alike_and_is_printed_once():
    enum = '{"type":"enum","name":"E","symbols":["A"]}'
    again = '{"type":"enum","name":"E","symbols":["A"],"doc":"other"}'
    text = record(f'{{"name":"a","type":{enum}}}', f'{{"name":"b","type":{again}}}')

    assert AVRO.parse(text).canonical == record(f'{{"name":"a","type":{enum}}}', '{"name":"b","type":"E"}')


def test_a_name_may_be_used_before_its_definition():
    enum = '{"type":"enum","name":"E","symbols":["A"]}'
    text = record('{"name":"a","type":["null","E"]}', f'{{"name":"b","type":{enum}}}')

    assert AVRO.parse(text, new=True).canonical == record(
        f'{{"name":"a","type":["null",{enum}]}}', '{"name":"b","type":"E"}'
    )


def test_integers_of_any_size_are_kept_on_fields_and_primitives():
    text = '{"type":"string","big":123456789012345678901234567890,"list":[18446744073709551615]}'

    assert AVRO.parse(text).canonical == text


def test_field_names_are_those_of_the_record_at_the_top():
    inner = record('{"name":"deep","type":"int"}').replace('"R"', '"I"')

    assert AVRO.parse(record(f'{{"name":"a","type":{inner}}}')).field_names() == {"a"}
    assert AVRO.parse('"int"').field_names() == frozenset()


def test_the_text_does_not_depend_on_white_space():
    text = UNCHANGED[-1]

    assert AVRO.parse(json.dumps(json.loads(text), indent=4)).canonical == text
