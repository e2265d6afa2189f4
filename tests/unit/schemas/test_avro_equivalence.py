"""Equivalence of Avro schemas: every attribute counts, their order does not."""

from __future__ import annotations

import pytest

from registry.domain.schemas import FORMATS

AVRO = FORMATS["AVRO"]


def field(rest: str) -> str:
    return f'{{"type":"record","name":"R","fields":[{{"name":"f",{rest}}}]}}'


def enum(rest: str) -> str:
    return f'{{"type":"enum","name":"E","symbols":["A","B"]{rest}}}'


def fixed(rest: str) -> str:
    return f'{{"type":"fixed","name":"F","size":1{rest}}}'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"int"', '{"type":"int"}'),
        ('{"type":"int","a":1,"b":{"c":1,"d":2}}', '{"b":{"d":2,"c":1},"a":1,"type":"int"}'),
        (enum(',"doc":"d"'), '{"symbols":["A","B"],"name":"E","doc":"d","type":"enum"}'),
        (fixed(',"aliases":["a","b"]'), fixed(',"aliases":["b","a","b"]')),
        (fixed(',"namespace":"n"'), fixed("").replace('"F"', '"n.F"')),
        (field('"type":["null","R"],"aliases":["a","b"]'), field('"aliases":["b","a"],"type":["null","R"]')),
        (field('"type":"int","order":"ascending"'), field('"type":"int"')),
        (field('"type":"double","default":"1"'), field('"type":"double","default":1.0')),
        (field('"type":"double","default":"NaN"'), field('"type":"double","default":"NaN"')),
        ('{"type":"error","name":"R","fields":[]}', '{"type":"record","name":"R","fields":[]}'),
    ],
)
def test_the_same(one, other):
    """A registration treats these pairs as one version."""
    assert AVRO.parse(one).equivalent(AVRO.parse(other))
    assert AVRO.parse(other).equivalent(AVRO.parse(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"int"', '"long"'),
        ('"int"', '{"type":"int","a":1}'),
        ('{"type":"int","a":1}', '{"type":"int","a":1.0}'),
        ('{"type":"int","a":1}', '{"type":"int","a":true}'),
        ('{"type":"int","a":[1,2]}', '{"type":"int","a":[2,1]}'),
        ('["null","int"]', '["int","null"]'),
        ('["null"]', '["null","int"]'),
        ('{"type":"array","items":"int"}', '{"type":"map","values":"int"}'),
        ('{"type":"array","items":"int"}', '{"type":"array","items":"long"}'),
        ('{"type":"map","values":"int"}', '{"type":"map","values":"long"}'),
        (enum(""), enum(',"doc":"d"')),
        (enum(""), enum(',"default":"A"')),
        (enum(""), enum(',"aliases":["x"]')),
        (enum(""), enum(',"namespace":"n"')),
        (enum(""), enum("").replace('"A","B"', '"B","A"')),
        (enum(""), enum("").replace('"E"', '"F"')),
        (fixed(""), fixed("").replace("1", "2")),
        (fixed(""), fixed(',"logicalType":"x"')),
        (field('"type":"int"'), field('"type":"int"').replace('"f"', '"g"')),
        (field('"type":"int"'), field('"type":"int","doc":""')),
        (field('"type":"int"'), field('"type":"int","order":"ignore"')),
        (field('"type":"int"'), field('"type":"int","aliases":["x"]')),
        (field('"type":"int"'), field('"type":"int","default":0')),
        (field('"type":"int","default":1'), field('"type":"int","default":0')),
        (field('"type":"double","default":0.0'), field('"type":"double","default":-0.0')),
        (field('"type":["null","int"],"default":null'), field('"type":["null","int"]')),
        (field('"type":["null","R"]'), field('"type":["null","R"],"p":1')),
        (field('"type":"int"'), '{"type":"record","name":"R","fields":[]}'),
    ],
)
def test_not_the_same(one, other):
    """A registration treats these pairs as two versions, although they look alike."""
    assert not AVRO.parse(one).equivalent(AVRO.parse(other))
    assert not AVRO.parse(other).equivalent(AVRO.parse(one))
