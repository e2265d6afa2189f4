"""References: how they are resolved, and which versions refer to a version."""

from __future__ import annotations

import pytest

from registry.domain.log_format.records import schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Reference, Subject
from registry.domain.parsing import stored
from registry.domain.queries import lists
from registry.domain.rows.view import View
from registry.domain.schemas import InvalidSchema
from tests.unit.small_registry import SmallRegistry, record, reference


def uses(name: str, *types: str) -> str:
    fields = ",".join(f'{{"name":"f{n}","type":"{each}"}}' for n, each in enumerate(types))
    return f'{{"type":"record","name":"{name}","fields":[{fields}]}}'


def resolve(small: SmallRegistry, *listed: Reference, deleted: bool = False) -> list[tuple[str, str]]:
    _, closure = stored.resolve(small.view, Subject.parse("x"), listed, deleted=deleted)
    return [(each.name, each.text) for each in closure]


def test_dependencies_come_before_those_who_use_them(small: SmallRegistry) -> None:
    small.register("a", record("A"))
    small.register("b", uses("B", "A"), references=[reference("a", name="A")])
    small.register("c", uses("C", "B", "A"), references=[reference("a", name="A"), reference("b", name="B")])
    assert [name for name, _ in resolve(small, reference("c", name="C"))] == ["A", "B", "C"]


def test_of_several_schemas_with_one_name_the_first_counts(small: SmallRegistry) -> None:
    small.register("one", record("A"))
    small.register("two", record("A", "x"))
    listed = (reference("one", name="A"), reference("two", name="A"))
    assert resolve(small, *listed) == [("A", record("A"))]
    numbered, _ = stored.resolve(small.view, Subject.parse("x"), listed, deleted=False)
    assert numbered == list(listed)


def test_nested_subjects_lie_in_the_context_of_who_names_them(small: SmallRegistry) -> None:
    small.register(":.ctx:a", record("A"))
    small.register(":.ctx:b", uses("B", "A"), references=[reference("a", name="A")])
    assert [name for name, _ in resolve(small, reference(":.ctx:b", name="B"))] == ["A", "B"]


@pytest.mark.parametrize("version", [0, -2, 2, 2**31 - 1])
def test_what_is_not_there_is_said(small: SmallRegistry, version: int) -> None:
    small.register("a", record("A"))
    with pytest.raises(InvalidSchema, match=f'subject "a" and version {version}'):
        resolve(small, reference("a", version))


def test_soft_deleted_versions_are_seen_only_where_asked_for(small: SmallRegistry) -> None:
    small.register("a", record("A"))
    small.delete("a")
    assert resolve(small, reference("a"), deleted=True) == [("R", record("A"))]
    with pytest.raises(InvalidSchema):
        resolve(small, reference("a"))
    with pytest.raises(InvalidSchema):
        resolve(small, reference("a", -1), deleted=True)


def record_version(
    small: SmallRegistry, subject: str, schema_id: int, schema: str, *listed: Reference
) -> None:
    """Record a version as another writer may do."""
    where = Subject.parse(subject)
    small.append(schema_key(where, 1), schema_value(where, 1, schema_id, schema, references=listed))


def test_a_chain_may_be_very_long(small: SmallRegistry) -> None:
    record_version(small, "s0", 1, record("R0"))
    for number in range(1, 1500):
        before = reference(f"s{number - 1}", name=f"R{number - 1}")
        record_version(small, f"s{number}", number + 1, record(f"R{number}"), before)
    assert len(resolve(small, reference("s1499"))) == 1500


def test_a_circle_ends(small: SmallRegistry) -> None:
    """Other writers can create a cycle by overwriting a version."""
    record_version(small, "a", 1, record("A"), reference("b", name="B"))
    record_version(small, "b", 2, record("B"), reference("a", name="A"))
    assert sorted(name for name, _ in resolve(small, reference("a", name="A"))) == ["A", "B"]


def ids(view: View, subject: Subject, version: int, **how: bool) -> list[int]:
    walk = lists.referrer_ids(view, subject, version, **how)
    return [each[1] for each in walk if each is not None]


def test_referrers(small: SmallRegistry) -> None:
    small.register("r", record("R"))
    small.register("u", uses("U", "R"), references=[reference("r")])
    small.register("v", uses("V", "R"), references=[reference("r", -1)])
    small.register(":.ctx:w", uses("W", "R"), references=[reference(":.:r")])
    small.register("twin", uses("U", "R"), references=[reference("r")])
    small.delete("v")
    r = Subject.parse("r")
    assert ids(small.view, r, 1) == [2, 1]
    assert ids(small.view, r, 1, deleted=True) == [2, 3, 1]
    assert ids(small.view, r, 2) == []
