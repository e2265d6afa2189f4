"""Texts of JSON schemas: what is accepted, and how it is printed."""

from __future__ import annotations

import pytest

from registry.domain.schemas import FORMATS, InvalidSchema

JSON = FORMATS["JSON"]


def canonical(value):
    return (
        JSON.parse(f'{{"default":{value}}}', new=True).canonical.removeprefix('{"default":').removesuffix("}")
    )


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1.0", "1.0"),
        ("1.50", "1.50"),
        ("1e2", "1E+2"),
        ("1E2", "1E+2"),
        ("100e0", "100"),
        ("1e-7", "1E-7"),
        ("0.00000001", "1E-8"),
        ("0.000001", "0.000001"),
        ("12.5e-3", "0.0125"),
        ("-0.0", "0.0"),
        ("-0", "0"),
        ("0e10", "0E+10"),
        ("1e400", "1E+400"),
        ("9223372036854775808", "9223372036854775808"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ("-1" + "0" * 900, "-1" + "0" * 900),
        ("NaN", '"NaN"'),
        ("[Infinity, INF, +Infinity, +INF]", '["Infinity","Infinity","Infinity","Infinity"]'),
        ("[-Infinity, -INF]", '["-Infinity","-Infinity"]'),
        ('"\\/"', '"/"'),
        ('"\\u00e9é"', '"éé"'),
        ('"\\ud83d\\ude00😀"', '"😀😀"'),
        ('"\\u0001\\u001f\\u007f"', '"\\u0001\\u001F\x7f"'),
        ('"\\b\\t\\n\\f\\r\\"\\\\"', '"\\b\\t\\n\\f\\r\\"\\\\"'),
        ('"\\\\u001f"', '"\\\\u001f"'),
        ("{ }", "{}"),
        (" [ 1 , true , null ] ", "[1,true,null]"),
        ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
        ('{"b":1,"a":{"d":1,"c":2}}', '{"b":1,"a":{"d":1,"c":2}}'),
    ],
)
def test_the_canonical_text(written, printed):
    assert canonical(written) == printed
    assert canonical(printed) == printed


def test_the_normalized_text_has_all_members_in_javas_order():
    schema = JSON.parse('{"b":1,"\ue000":0,"😀":2,"a":[{"d":1.50,"c":2},1]}')
    assert schema.normalized == '{"a":[{"c":2,"d":1.50},1],"b":1,"😀":2,"\ue000":0}'
    assert JSON.parse(schema.normalized).normalized == schema.normalized


def test_the_order_of_members_makes_another_schema_unless_normalized():
    one, other = JSON.parse('{"type":"string","title":"t"}'), JSON.parse('{"title":"t","type":"string"}')
    assert not one.equivalent(other)
    assert one.equivalent(JSON.parse(' {"type": "string", "title": "\\u0074"}'))
    assert one.normalized == other.normalized
    assert not one.equivalent(FORMATS["AVRO"].parse('"string"'))


@pytest.mark.parametrize("text", ["true", "false", "{}", " {}\n"])
def test_booleans_and_objects_are_schemas(text):
    assert JSON.parse(text, new=True).canonical == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "5", '"string"', "null", "[]", "{", '{"a"}', '{"a":1}}', "{} {}", '{"a":1,}', "{'a':1}",
        "// x\n{}",
        '{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":"\x01"}', '{"a":"\\ud800"}',
        '{"a":"\\udc00\\ud800"}',
        '{"a":"\\x"}', '{"a":nan}', '{"a":Infinit}', '{"a":1e99999999999}', '{"a":' + "1" * 1001 + "}",
        '{"a":0.' + "1" * 1001 + "}", "\ufeff{}", "[" * 50_000, '{"a":' * 30_000 + "1" + "}" * 30_000,
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(InvalidSchema) as refused:
        JSON.parse(text)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("format", ["", "default", "resolved", "serialized", "ignore_extensions", "LOGICAL"])
def test_there_is_one_form_of_the_text(format):
    assert JSON.parse('{"b":1, "a":2}').text_in(format) == '{"b":1,"a":2}'


def test_fields_are_the_properties_at_the_top():
    schema = JSON.parse('{"properties":{"a":{"properties":{"$$b":{}}},"c":true}}')
    assert schema.field_names() == {"a", "c"}
    schema.check_fields()
    for text in ("true", '{"properties":[]}', "{}"):
        assert JSON.parse(text).field_names() == frozenset()
    with pytest.raises(InvalidSchema, match=r"#/properties/\$\$x"):
        JSON.parse('{"properties":{"$$x":{}}}').check_fields()
