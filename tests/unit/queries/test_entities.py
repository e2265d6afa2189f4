"""The bodies of answers, byte for byte: their members, order, and omissions."""

from __future__ import annotations

import orjson
import pytest

from registry.domain.log_format import values
from registry.domain.log_format.records import schema_key
from registry.domain.model import Metadata, Reference, Rule, RuleSet, Subject
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Config
from registry.domain.rows.version_row import VersionRow
from tests.unit.small_registry import STRING, SmallRegistry

GUID = '"guid":"095d71cf-1255-6b9d-5e33-0ad575b3df5d"'


def row(small: SmallRegistry, name: str = "s", version: int = 1) -> VersionRow:
    found = versions.get(small.view, Subject.parse(name), version)
    assert found is not None
    return found


@pytest.fixture
def plain(small: SmallRegistry) -> VersionRow:
    small.register("s")
    return row(small)


@pytest.fixture
def full(small: SmallRegistry) -> VersionRow:
    """Return a version with everything, soft-deleted, in a context."""
    where = Subject.parse(":.ctx:s")
    value = values.schema_value(
        where,
        3,
        7,
        "a text",
        schema_type="JSON",
        references=[Reference("n", "r", 1), Reference("m", ":.:q", 2)],
        metadata=Metadata(properties={"k": "v"}),
        rule_set=RuleSet(domain_rules=[Rule("r", type="CEL")]),
        deleted=True,
    )
    small.append(schema_key(where, 3), value)
    return row(small, ":.ctx:s", 3)


def test_a_plain_schema(plain: VersionRow) -> None:
    front = f'{{"subject":"s","version":1,"id":1,{GUID},"schemaType":"AVRO","schema":"\\"string\\""'
    assert entities.schema_entity(plain).decode() == front + ',"ts":1001,"deleted":false}'
    assert entities.schema_entity(plain, times=False).decode() == front + "}"


def test_a_plain_schema_string(plain: VersionRow) -> None:
    back = f'{GUID},"schemaType":"AVRO","schema":"\\"string\\"","ts":1001,"deleted":false}}'
    assert entities.schema_string(plain).decode() == '{"subject":"s","version":1,' + back
    assert entities.schema_string(plain, named=False).decode() == "{" + back
    with_max = entities.schema_string(plain, tail=b',"maxId":9').decode()
    assert with_max.endswith(',"maxId":9,"ts":1001,"deleted":false}')


def test_a_plain_registration(plain: VersionRow) -> None:
    front = f'{{"id":1,"version":1,{GUID},"schemaType":"AVRO","schema":"\\"string\\""'
    assert entities.registration_response(plain, 1).decode() == front + "}"
    assert (
        entities.registration_response(plain, 1, times=True).decode() == front + ',"ts":1001,"deleted":false}'
    )


@pytest.mark.parametrize(
    ("body", "members"),
    [
        (
            entities.schema_entity,
            "subject version id guid schemaType references metadata schema ts deleted ruleSet",
        ),
        (
            entities.schema_string,
            "subject version guid schemaType schema references metadata ruleSet ts deleted",
        ),
        (
            lambda full: entities.registration_response(full, 3, times=True),
            "id version guid schemaType references metadata ruleSet schema ts deleted",
        ),
    ],
)
def test_members_in_confluents_order(full: VersionRow, body, members: str) -> None:
    assert list(orjson.loads(body(full))) == members.split()


def test_the_pieces_of_a_row_are_read_back(full: VersionRow, plain: VersionRow) -> None:
    assert entities.text(full) == "a text"
    assert entities.schema_type(full) == "JSON"
    assert entities.references(full)[0] == Reference("n", "r", 1)
    assert entities.metadata(full) == Metadata(properties={"k": "v"})
    assert entities.rule_set(full) == RuleSet(
        domain_rules=[Rule("r", kind="TRANSFORM", mode="WRITEREAD", type="CEL")]
    )
    assert entities.references(plain) == []
    assert entities.metadata(plain) is None
    assert entities.rule_set(plain) is None


def test_references_are_qualified_by_a_context(full: VersionRow, plain: VersionRow) -> None:
    qualified = entities.with_qualified_references(full, ".ctx")
    assert [each.subject for each in entities.references(qualified)] == [":.ctx:r", "q"]
    assert entities.with_qualified_references(full, ".") is full
    assert entities.with_qualified_references(plain, ".ctx") is plain


def test_another_text_leaves_the_guid(plain: VersionRow) -> None:
    other = orjson.loads(entities.schema_entity(entities.with_text(plain, 'é "q"')))
    assert other["schema"] == 'é "q"'
    assert other["guid"] in GUID


def test_a_new_registration_looks_like_one_that_was_found(small: SmallRegistry) -> None:
    rules = RuleSet(domain_rules=[Rule("r", type="CEL")])
    first = small.register("s", STRING, metadata=Metadata(properties={"k": "v"}), rule_set=rules)
    assert list(first) == list(small.register("s", STRING))
    assert first == small.register("s", STRING)


def test_config_and_mode() -> None:
    config = Config(alias="a", normalize=False, compatibility_level="FULL")
    assert entities.config_entity(config) == b'{"alias":"a","normalize":false,"compatibilityLevel":"FULL"}'
    assert entities.config_update(config) == b'{"alias":"a","normalize":false,"compatibility":"FULL"}'
    assert entities.mode_entity("IMPORT") == b'{"mode":"IMPORT"}'
    assert entities.mode_entity(None) == b"{}"
