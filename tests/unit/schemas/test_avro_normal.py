"""The normalized form: one text for schemas that differ only in order and spelling."""

from __future__ import annotations

import pytest

from registry.domain.schemas import FORMATS

AVRO = FORMATS["AVRO"]


def field(rest: str) -> str:
    return f'{{"type":"record","name":"R","fields":[{{"name":"f",{rest}}}]}}'


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ('"int"', '"int"'),
        (
            '{"type":"int","b":1,"a":{"d":1,"c":[{"y":1,"x":2}]}}',
            '{"type":"int","a":{"c":[{"x":2,"y":1}],"d":1},"b":1}',
        ),
        (
            '{"a":1,"scale":2,"type":"bytes","precision":4,"logicalType":"decimal"}',
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":1}',
        ),
        (
            '{"a":1,"scale":0,"type":"bytes","precision":4,"logicalType":"decimal"}',
            '{"type":"bytes","logicalType":"decimal","precision":4,"a":1,"scale":0}',
        ),
        (
            '{"a":1,"scale":9,"type":"bytes","precision":4,"logicalType":"decimal"}',
            '{"type":"bytes","a":1,"logicalType":"decimal","precision":4,"scale":9}',
        ),
        (
            '{"a":1,"type":"fixed","name":"F","size":2,"precision":4,"logicalType":"decimal"}',
            '{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":4,"a":1}',
        ),
        (
            '{"a":1,"type":"long","logicalType":"timestamp-millis"}',
            '{"type":"long","logicalType":"timestamp-millis","a":1}',
        ),
        (
            '{"a":1,"type":"int","logicalType":"timestamp-millis"}',
            '{"type":"int","a":1,"logicalType":"timestamp-millis"}',
        ),
        ('{"a":1,"type":"string","logicalType":"uuid"}', '{"type":"string","logicalType":"uuid","a":1}'),
        (
            '{"a":1,"type":"string","logicalType":"uuid","avro.java.string":"String"}',
            '{"type":"string","a":1,"avro.java.string":"String","logicalType":"uuid"}',
        ),
        ('{"type":"array","items":"int","b":1,"a":2}', '{"type":"array","items":"int","a":2,"b":1}'),
        (
            '{"type":"enum","name":"E","doc":"","symbols":["B","A"]}',
            '{"type":"enum","name":"E","symbols":["B","A"]}',
        ),
        (
            '{"type":"enum","name":"n.E","symbols":[],"aliases":["z","a","n.b",".c"]}',
            '{"type":"enum","name":"E","namespace":"n","symbols":[],"aliases":["c","a","b","z"]}',
        ),
        (
            '{"type":"error","name":"X","doc":"d","fields":[]}',
            '{"type":"record","name":"X","doc":"d","fields":[]}',
        ),
        (field('"type":"int","order":"Ascending","doc":""'), field('"type":"int","doc":""')),
        (
            field('"q":1,"p":2,"aliases":["y","x"],"default":1,"type":"int","order":"ignore"'),
            field('"type":"int","default":1,"order":"ignore","aliases":["x","y"],"p":2,"q":1'),
        ),
        (field('"type":["null","int"],"default":null'), field('"type":["null","int"],"default":null')),
        (field('"type":["null","int"],"default":5'), field('"type":["null","int"],"default":5')),
        (field('"type":"double","default":1'), field('"type":"double","default":1.0')),
        (field('"type":"float","default":0.123456789'), field('"type":"float","default":0.12345679')),
        (field('"type":"float","default":1e300'), field('"type":"float","default":"Infinity"')),
        (field(f'"type":"float","default":1{"0" * 400}'), field('"type":"float","default":"Infinity"')),
        (field(f'"type":"float","default":-1{"0" * 400}'), field('"type":"float","default":"-Infinity"')),
        (field(f'"type":"double","default":1{"0" * 400}'), field('"type":"double","default":"Infinity"')),
        (field(f'"type":"double","default":1{"0" * 305}'), field('"type":"double","default":1.0E305')),
        (field('"type":"bytes","default":"\u00ff\u0100"'), field('"type":"bytes","default":"\u00ff?"')),
        (
            field('"type":{"type":"map","values":"double"},"default":{"b":1,"a":2}'),
            field('"type":{"type":"map","values":"double"},"default":{"a":2.0,"b":1.0}'),
        ),
    ],
)
def test_normal_form(text, normalized):
    assert AVRO.parse(text).normalized == normalized


@pytest.mark.parametrize("format", ["", "default"])
def test_the_canonical_text_is_not_touched_by_normalizing(format):
    schema = AVRO.parse('{"type":"int","b":1,"a":2}')

    assert schema.normalized != schema.canonical
    assert schema.text_in(format) == '{"type":"int","b":1,"a":2}'


def test_a_recursive_schema_is_normalized():
    text = field('"b":1,"a":2,"type":["null","R"]')

    assert AVRO.parse(text).normalized == field('"type":["null","R"],"a":2,"b":1')
