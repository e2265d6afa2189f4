"""Schemas that name types of other schemas: their stored text, and their ``format=resolved``."""

from __future__ import annotations

import pytest

from registry.domain.schemas import FORMATS, Dependency, InvalidSchema

AVRO = FORMATS["AVRO"]

KEY = '{"type":"record","name":"Key","namespace":"a","fields":[{"name":"id","type":"long"}]}'
KEYS = Dependency("a.Key", KEY)
ORDER = (
    '{"type":"record","name":"Order","namespace":"a","fields":'
    '[{"name":"key","type":"a.Key"},{"name":"old","type":["null","Key"]}]}'
)


def test_a_dependency_is_only_referred_to_in_the_stored_text():
    schema = AVRO.parse(ORDER, [KEYS], new=True)

    assert schema.canonical == ORDER.replace("a.Key", "Key")


def test_resolved_has_the_dependency_inline_at_its_first_use():
    schema = AVRO.parse(ORDER, [KEYS])

    inline = KEY.replace(',"namespace":"a"', "")
    assert schema.text_in("RESOLVED") == ORDER.replace('"a.Key"', inline)


@pytest.mark.parametrize("name", ["", "default", "Default", "serialized", "nonsense"])
def test_any_other_format_is_the_stored_text(name):
    schema = AVRO.parse(ORDER, [KEYS])

    assert schema.text_in(name) == schema.canonical


def test_types_inside_a_dependency_are_known_but_printed_in_full():
    """Confluent 8.x only leaves out the dependencies' own names, not those of the types inside them."""
    inner = '{"type":"enum","name":"E","symbols":["A"]}'
    outer = f'{{"type":"record","name":"O","fields":[{{"name":"e","type":{inner}}}]}}'

    schema = AVRO.parse('["O","E"]', [Dependency("O", outer)])

    assert schema.canonical == f'["O",{inner}]'
    assert AVRO.parse(schema.canonical, [Dependency("O", outer)]).canonical == schema.canonical


def test_dependencies_may_depend_on_earlier_ones():
    line = '{"type":"record","name":"Line","namespace":"b","fields":[{"name":"key","type":"a.Key"}]}'

    schema = AVRO.parse('{"type":"array","items":"b.Line"}', [KEYS, Dependency("b.Line", line)], new=True)

    assert schema.canonical == '{"type":"array","items":"b.Line"}'
    assert '{"name":"id","type":"long"}' in schema.text_in("resolved")


def test_a_missing_dependency_is_named():
    with pytest.raises(InvalidSchema, match=r"Undefined schema: a\.Key"):
        AVRO.parse(ORDER)


def test_a_dependency_may_be_defined_again_only_alike():
    other = KEY.replace("long", "int")

    assert AVRO.parse(KEY.replace('"fields"', '"doc":"d","fields"'), [KEYS]).canonical == '"a.Key"'
    with pytest.raises(InvalidSchema, match=r"Can't redefine: a\.Key"):
        AVRO.parse(other, [KEYS])


def test_dependencies_are_stored_schemas_and_not_held_to_the_rules_for_new_ones():
    old = (
        '{"type":"record","name":"Old","namespace":"a-b","fields":[{"name":"f","type":"int","default":"x"}]}'
    )

    assert (
        AVRO.parse('["null","a-b.Old"]', [Dependency("old", old)], new=True).canonical == '["null","a-b.Old"]'
    )


def test_a_schema_with_its_dependency_inline_is_equivalent_to_one_that_refers_to_it():
    by_reference = AVRO.parse(ORDER, [KEYS])
    inline = AVRO.parse(by_reference.text_in("resolved"))

    assert inline.canonical != by_reference.canonical
    assert inline.equivalent(by_reference)
    assert by_reference.equivalent(inline)


def test_the_normal_form_refers_to_dependencies_too():
    assert AVRO.parse(ORDER, [KEYS]).normalized == ORDER.replace("a.Key", "Key")


def test_a_dependency_takes_part_in_comparisons():
    wider = Dependency("a.Key", KEY.replace("long", "double"))
    old, new = AVRO.parse(ORDER, [KEYS]), AVRO.parse(ORDER, [wider])

    assert AVRO.differences(new, old, "new") == []
    assert [found.path for found in AVRO.differences(old, new, "old")] == [
        "/fields/0/type/fields/0/type",
        "/fields/1/type/1",
    ]
