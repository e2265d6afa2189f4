"""Invalid Avro schemas and their messages: results, and most messages, are those of Java Avro 1.12.1."""

from __future__ import annotations

import pytest

from registry.domain.schemas import FORMATS, InvalidSchema

AVRO = FORMATS["AVRO"]


def record(*fields: str) -> str:
    return f'{{"type":"record","name":"R","fields":[{",".join(fields)}]}}'


def enum(symbols: str) -> str:
    return f'{{"type":"enum","name":"E","symbols":{symbols}}}'


ALWAYS_REFUSED = [
    ("", "Cannot parse <null> schema"),
    ("  /* nothing */ ", "Cannot parse <null> schema"),
    ("string", "Unexpected 'string' at line 1, column 1"),
    ('{"type":\n  strin', "Unexpected 'strin' at line 2, column 3"),
    ('{"type":"string"', "Unexpected end-of-input"),
    ('{"type":"string",}', "Unexpected '}' at line 1, column 18"),
    ('{"type":"string","x":NaN}', "Unexpected 'NaN}'"),
    ('{"type":"string","x":01}', "Unexpected '1}'"),
    ("{'type':'string'}", "Unexpected"),
    ('"a\tb"', "Unexpected"),
    ('"\\ud800"', "Illegal string"),
    ('/* open "string"', "Unexpected '/*'"),
    ('"string" x', "dangling content after end of schema: x"),
    ('"string"/* c */', "dangling content after end of schema: /* c */"),
    ("\ufeff" + '"int"', "Unexpected"),
    ("null", "Schema not yet supported: null"),
    ("12", "Schema not yet supported: 12"),
    ("{}", "No type: {}"),
    ('{"type":{"type":"string"}}', 'No type: {"type":{"type":"string"}}'),
    ('{"type":["null","int"]}', 'No type: {"type":["null","int"]}'),
    ('{"type":"array"}', "Array has no items type"),
    ('{"type":"map"}', "Map has no values type"),
    ('[["int"]]', 'Nested union: [["int"]]'),
    ('["null","null"]', "Duplicate in union:null"),
    ('[{"type":"map","values":"int"},{"type":"map","values":"long"}]', "Duplicate in union:map"),
    (record('{"name":"a","type":["R","R"]}'), "Duplicate in union:R"),
    ('"a.b.C"', "Undefined schema: a.b.C"),
    ('{"type":"union"}', "Undefined schema: union"),
    (record('{"name":"a","type":"X"}').replace('"R"', '"n.R"'), "Undefined schema: n.X"),
    ('{"type":"fixed","name":"F"}', "Invalid or no size"),
    ('{"type":"fixed","name":"F","size":16.0}', "Invalid or no size"),
    ('{"type":"fixed","name":"F","size":-1}', "Malformed data. Length is negative: -1"),
    ('{"type":"fixed","name":"F","size":2147483647}', "Cannot read arrays longer than 2147483639 bytes"),
    ('{"type":"enum","name":"E"}', "Enum has no symbols"),
    (enum('["A","A"]'), "Duplicate enum symbol: A"),
    (enum("[1]"), "Null name"),
    (enum('["A-B"]'), "Illegal character in: A-B"),
    (
        '{"type":"enum","name":"E","symbols":["A","B"],"default":"C"}',
        "The Enum Default: C is not in the enum symbol set: [A, B]",
    ),
    ('{"type":"record","name":"int","fields":[]}', "Schemas may not be named after primitives: int"),
    ('{"type":"record","fields":[]}', "No name in schema"),
    ('{"type":"record","name":"R"}', "Record has no fields"),
    ('{"type":"record","name":"R-1","fields":[]}', "Illegal character in: R-1"),
    ('{"type":"record","name":"1R","fields":[]}', "Illegal initial character: 1R"),
    ('{"type":"record","name":"a.","fields":[]}', "Empty name"),
    ('{"type":"record","name":"R\U0001d400","fields":[]}', "Illegal character in"),
    (record("1"), "No field name: 1"),
    (record("{}"), "No field name: {}"),
    (record('{"name":"a"}'), 'No field type: {"name":"a"}'),
    (record('{"name":"a b","type":"int"}'), "Illegal character in: a b"),
    (
        record('{"name":"a","type":"int"}', '{"name":"a","type":"string"}'),
        "Duplicate field a in record R: a type:STRING pos:1 and a type:INT pos:0.",
    ),
    (record('{"name":"a","type":"int","order":"up"}'), 'Invalid order: "up"'),
    (record('{"name":"a","type":"int","order":1}'), "Invalid order: 1"),
    (record('{"name":"a","type":"int","aliases":null}'), "aliases not an array"),
    (record('{"name":"a","type":"int","aliases":[1]}'), "alias not a string: 1"),
    (record('{"name":"a","type":"double","default":"x"}'), 'For input string: "x"'),
    (
        record(
            f'{{"name":"a","type":{enum("[]")}}}',
            f'{{"name":"b","type":{enum(chr(91) + chr(34) + "A" + chr(34) + chr(93))}}}',
        ),
        "Can't redefine: E",
    ),
    ('{"type":"record","name":"R","fields":[],"big":18446744073709551616}', "integer beyond 64 bits"),
]


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(("text", "message"), ALWAYS_REFUSED)
def test_refused_whether_new_or_not(text, message, new):
    with pytest.raises(InvalidSchema) as refusal:
        AVRO.parse(text, new=new)

    assert message in str(refusal.value)


def defaulted(type_text: str, default: str) -> str:
    return record(f'{{"name":"f","type":{type_text},"default":{default}}}')


INNER = record('{"name":"q","type":"int"}').replace('"R"', '"I"')
REFUSED_WHEN_NEW = [
    (defaulted('"int"', '"x"'), 'Invalid default for field f: "x" not a "int"'),
    (defaulted('"int"', "1.0"), 'Invalid default for field f: 1.0 not a "int"'),
    (defaulted('"int"', "2147483648"), "Invalid default for field f: 2147483648"),
    (defaulted('"long"', "9223372036854775808"), "Invalid default for field f: 9223372036854775808"),
    (defaulted('"string"', "null"), 'Invalid default for field f: null not a "string"'),
    (defaulted('"boolean"', "1"), "Invalid default"),
    (defaulted('["null","string"]', "1"), 'Invalid default for field f: 1 not a ["null","string"]'),
    (defaulted('["null","int"]', '"null"'), 'Invalid default for field f: "null" not a ["null","int"]'),
    (defaulted('["null","double"]', '"x"'), "Invalid default"),
    (
        defaulted('{"type":"array","items":"int"}', '[1,"a"]'),
        'Invalid default for field f: [1,"a"] not a {"type":"array","items":"int"}',
    ),
    (defaulted('{"type":"map","values":"int"}', '{"a":null}'), "Invalid default"),
    (defaulted(INNER, "{}"), "Invalid default for field f: {} not a"),
    (defaulted(INNER, '{"q":"x"}'), "Invalid default"),
    (defaulted('"R"', "{}"), "Schema fields not set yet"),
    (defaulted('["null","R"]', "{}"), "Schema fields not set yet"),
    (defaulted('"R"', "1"), "Invalid default"),
    ('{"type":"record","name":"R","namespace":"a-b","fields":[]}', "Illegal character in: a-b"),
    ('{"type":"record","name":"R","namespace":"a..b","fields":[]}', "Empty name"),
    ('{"type":"record","name":"Ré","fields":[]}', "Illegal character in: Ré"),
    (enum('["é"]'), "Illegal initial character: é"),
    (record('{"name":"ж","type":"int"}'), "Illegal initial character: ж"),
    ('{"type":"record","name":"R","fields":[],"aliases":["x-y"]}', "Illegal character in: x-y"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED_WHEN_NEW)
def test_refused_only_when_new(text, message):
    with pytest.raises(InvalidSchema) as refusal:
        AVRO.parse(text, new=True)

    assert message in str(refusal.value)
    assert AVRO.parse(text, new=False).canonical


@pytest.mark.parametrize(
    "text",
    [
        defaulted('["null","string"]', '"x"'),
        defaulted('["null","string","int"]', "5"),
        defaulted('"float"', "1"),
        defaulted('"double"', "123456789012345678901234567890"),
        defaulted('"long"', "9223372036854775807"),
        defaulted('{"type":"array","items":"R"}', "[]"),
        defaulted('["null","R"]', "null"),
        defaulted('{"type":"map","values":["int","null"]}', '{"a":null,"b":1}'),
        defaulted(INNER, '{"q":1,"unknown":2}'),
        defaulted(INNER.replace('"int"', '"int","default":1'), "{}"),
        defaulted(enum('["A"]'), '"no symbol"'),
        defaulted('{"type":"fixed","name":"F","size":2}', '"any length"'),
        '{"type":"record","name":"R","fields":[],"aliases":["a-b.x"]}',
        record('{"name":"a","type":"int","aliases":["any thing"]}'),
        record('{"name":"a","type":"int","order":"Descending"}'),
    ],
)
def test_accepted_when_new(text):
    assert AVRO.parse(text, new=True).canonical == AVRO.parse(text).canonical


def test_defaults_of_a_forward_name_are_checked_against_its_definition():
    text = record('{"name":"e","type":["E","string"],"default":{}}', f'{{"name":"f","type":{enum("[]")}}}')

    with pytest.raises(InvalidSchema, match=r"Invalid default for field e: \{\} not a"):
        AVRO.parse(text, new=True)


def test_unions_that_offer_many_ways_are_checked_in_reasonable_time():
    """Ten records on each of twelve levels: without caching there are 10**12 ways to fail."""
    levels, width = 12, 10
    types: list[str] = ['"string"']
    for level in range(levels):
        inner, below = ",".join(types), _names(level - 1, width)
        first = f'{{"type":"record","name":"R{level}_0","fields":[{{"name":"f","type":[{inner}]}}]}}'
        types = [first] + [
            f'{{"type":"record","name":"R{level}_{i}","fields":[{{"name":"f","type":[{below}]}}]}}'
            for i in range(1, width)
        ]
    value = '{"f":' * levels + "1" + "}" * levels

    with pytest.raises(InvalidSchema, match="Invalid default"):
        AVRO.parse(defaulted(f"[{','.join(types)}]", value), new=True)


def _names(level: int, width: int) -> str:
    return ",".join(f'"R{level}_{i}"' for i in range(width)) if level >= 0 else '"string"'
