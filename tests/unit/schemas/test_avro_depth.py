"""Nesting does not use the stack: what Java reads is read, and deeper nesting gets a plain error."""

from __future__ import annotations

import sys

import pytest

from registry.domain.schemas import FORMATS, InvalidSchema

AVRO = FORMATS["AVRO"]


def arrays(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def records(depth: int, last: str = '"int"') -> str:
    opened = [f'{{"type":"record","name":"R{i}","fields":[{{"name":"f","type":' for i in range(depth)]
    return "".join(opened) + last + "}]}" * depth


def chain(length: int, last: str) -> str:
    """Return records that refer forward to the next one, so that the text is flat and the types are deep."""
    inner = [f'"C{i + 1}"' for i in range(length)] + [last]
    fields = [
        f'{{"name":"c{i}","type":{{"type":"record","name":"C{i}","fields":[{{"name":"f","type":{type_text}}}]}}}}'
        for i, type_text in enumerate(inner)
    ]
    return f'{{"type":"record","name":"Top","fields":[{",".join(fields)}]}}'


@pytest.mark.parametrize(
    "text", ["[" * 10_000, "[" * 10_000 + "]" * 10_000, arrays(10_000), '{"a":' * 10_000]
)
def test_ten_thousand_levels_are_refused(text):
    with pytest.raises(InvalidSchema, match=r"nesting depth exceeds the maximum allowed \(1000\)"):
        AVRO.parse(text)


def test_a_thousand_levels_are_read_and_one_more_is_not():
    assert AVRO.parse(arrays(1000), new=True).canonical == arrays(1000)

    with pytest.raises(InvalidSchema, match="nesting depth"):
        AVRO.parse(arrays(1001))


@pytest.mark.parametrize("text", [arrays(1000), records(333), chain(1500, '"int"')])
def test_deep_schemas_are_printed_compared_and_normalized_wherever_the_stack_stands(text):
    def at_depth(levels: int) -> None:
        if levels:
            at_depth(levels - 1)
            return
        one, other = AVRO.parse(text, new=True), AVRO.parse(text.replace("int", "long"))
        assert one.canonical
        assert one.normalized
        assert one.text_in("resolved")
        assert one.equivalent(AVRO.parse(text))
        assert not one.equivalent(other)
        assert AVRO.differences(other, one, "new") == []
        assert AVRO.differences(one, other, "new") != []

    # The remaining stack is far less than one frame for each level of the schema.
    at_depth(sys.getrecursionlimit() - 150)


def test_deep_defaults_and_properties_are_read():
    value = "[" * 900 + "]" * 900
    field = f'{{"name":"f","type":{arrays(900)},"default":{value},"p":{value}}}'
    text = f'{{"type":"record","name":"R","fields":[{field}]}}'

    schema = AVRO.parse(text, new=True)

    assert schema.canonical == text
    assert schema.equivalent(AVRO.parse(schema.normalized))


def test_differences_of_types_that_share_types_are_limited():
    """Each level names the next one twice, so there are 2**40 paths to the leaf."""

    def doubled(leaf: str) -> str:
        text = f'{{"type":"record","name":"D0","fields":[{{"name":"x","type":{leaf}}}]}}'
        for i in range(1, 41):
            fields = f'{{"name":"a","type":{text}}},{{"name":"b","type":"D{i - 1}"}}'
            text = f'{{"type":"record","name":"D{i}","fields":[{fields}]}}'
        return text

    reader, writer = AVRO.parse(doubled('"int"'), new=True), AVRO.parse(doubled('"string"'))

    assert len(AVRO.differences(reader, writer, "new")) == 1000


def test_unions_of_a_thousand_records_are_compared_by_their_names():
    def union(leaf: str) -> str:
        fields = f'[{{"name":"x","type":{leaf}}}]'
        branches = ",".join(f'{{"type":"record","name":"R{i}","fields":{fields}}}' for i in range(1000))
        return f"[{branches}]"

    old, new, other = (AVRO.parse(union(leaf)) for leaf in ('"int"', '"long"', '"string"'))

    assert AVRO.differences(new, old, "new") == []
    assert len(AVRO.differences(old, new, "old")) == 1000
    assert {difference.type for difference in AVRO.differences(other, old, "new")} == {"MISSING_UNION_BRANCH"}


def test_a_comparison_without_end_is_given_up():
    """Return records of one name in a thousand namespaces: any may read any."""

    def union(leaf: str) -> str:
        fields = f'[{{"name":"x","type":{leaf}}}]'
        branches = ",".join(f'{{"type":"record","name":"n{i}.R","fields":{fields}}}' for i in range(1000))
        return f"[{branches}]"

    found = AVRO.differences(AVRO.parse(union('"int"')), AVRO.parse(union('"string"')), "new")

    assert [item.text for item in found] == [
        "Unexpected exception during compatibility check: more than 50000 pairs of types to compare"
    ]


def test_a_default_that_would_take_too_long_to_check_is_refused():
    branches = ",".join(
        f'{{"type":"record","name":"B{i}","fields":[{{"name":"x","type":"int"}}]}}' for i in range(2000)
    )
    values = ",".join(["1"] * 2000)
    field = f'{{"name":"f","type":{{"type":"array","items":[{branches},"int"]}},"default":[{values}]}}'

    with pytest.raises(InvalidSchema, match="too large to be checked"):
        AVRO.parse(f'{{"type":"record","name":"R","fields":[{field}]}}', new=True)
