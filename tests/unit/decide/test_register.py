"""Registrations: identity, numbering, inheritance, modes, imports, and the order of refusals."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.domain.commands import Register
from registry.domain.decide import repeat_reply
from registry.domain.log_format import records, values
from registry.domain.log_format.records import AssociationKey, association_key
from registry.domain.model import (
    DEFAULT_CONTEXT,
    ID_MAX,
    VERSION_MAX,
    Metadata,
    Reference,
    Rule,
    RuleSet,
    Subject,
    identity,
)
from registry.domain.queries import entities, versions
from registry.domain.queries.associations import ASSOCIATION_RULES
from registry.domain.queries.scope import Defaults
from tests.unit.small_registry import INT, LONG, STRING, SmallRegistry, properties, record, reference

STRING_GUID = "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


def test_a_first_registration_answers_all_but_times(small: SmallRegistry) -> None:
    assert small.register("s", ' "string" ') == {
        "id": 1,
        "version": 1,
        "guid": STRING_GUID,
        "schemaType": "AVRO",
        "schema": STRING,
    }
    ids, schema = small.last
    assert ids.key == b'{"keytype":"NOOP","magic":0,"registrar":"ids","context":"."}'
    assert ids.value == b'{"upto":20}'
    assert schema.key == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    assert schema.value == (
        b'{"subject":"s","version":1,"id":1,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}'
    )


def test_the_same_schema_again_writes_nothing(small: SmallRegistry) -> None:
    first = small.register("s")
    assert small.register("s") == first
    assert small.last == []


def test_the_same_content_shares_its_id_within_a_context_only(small: SmallRegistry) -> None:
    assert small.place("a") == (1, 1)
    assert small.place("b") == (1, 1)
    assert small.place("c", INT) == (2, 1)
    assert small.place(":.ctx:d", INT) == (1, 1)
    assert small.place(":.ctx:e", STRING) == (2, 1)
    assert small.register(":.ctx:e")["guid"] == STRING_GUID


def test_an_id_that_another_program_gave_to_another_content_first_is_answered_to_nobody(
    small: SmallRegistry,
) -> None:
    """Both programs took the id, and ours was killed before it could set that right."""
    small.level(None, "NONE")
    for subject, text in (("theirs", INT), ("s", STRING)):
        name = Subject.parse(subject)
        small.append(records.schema_key(name, 1), values.schema_value(name, 1, 1, text))
    repeated = repeat_reply(small.view, Register("s", STRING), b'{"id":1,"version":1}')
    assert small.parser.run(repeated) is None
    new, version = small.place("s", STRING)
    assert (new > 1, version) == (True, 2)
    assert small.place("t", STRING) == (new, 1)
    assert small.place("u", INT) == (1, 1)


def test_an_id_that_another_program_took_later_is_not_given_again_once_its_version_was_deleted(
    small: SmallRegistry,
) -> None:
    """The new version would supersede the deleted one, whose record is what the id stands for."""
    small.level(None, "NONE")
    first, _ = small.place("s", STRING)
    theirs = Subject.parse("theirs")
    small.append(records.schema_key(theirs, 1), values.schema_value(theirs, 1, first, INT))
    small.delete("s")
    new, version = small.place("s", STRING)
    assert (new > first, version) == (True, 2)
    assert small.place("s", STRING) == (new, 2)
    answering = versions.by_id(small.view, DEFAULT_CONTEXT, first)
    assert answering is not None
    assert entities.text(answering.row) == STRING


def test_the_first_schema_of_a_context_records_the_context(small: SmallRegistry) -> None:
    small.register(":.ctx:s")
    assert small.last_keys == [("CONTEXT", ".ctx", None, True), ("SCHEMA", ":.ctx:s", 1, True)]
    small.register(":.ctx:t")
    assert small.last_keys == [("SCHEMA", ":.ctx:t", 1, True)]


def test_an_older_version_is_found_and_the_latest_does_not_move(small: SmallRegistry) -> None:
    small.level(None, "NONE")
    small.register("s", STRING)
    small.register("s", INT)
    assert small.place("s", STRING) == (1, 1)
    assert small.last == []


def test_a_text_with_other_attribute_order_is_the_same_schema(small: SmallRegistry) -> None:
    one = '{"type":"record","name":"R","fields":[],"x":1,"y":2}'
    other = '{"y":2,"x":1,"fields":[],"name":"R","type":"record"}'
    assert small.place("s", one) == small.place("s", other) == (1, 1)
    assert small.place("t", other) == (
        2,
        1,
    )  # Properties keep their order in the text, so it is different content.


@pytest.mark.parametrize(
    ("config", "normalize", "same"),
    [({}, False, False), ({}, True, True), ({"normalize": True}, False, True)],
)
def test_normalized_texts_are_the_same_content(
    small: SmallRegistry, config: dict[str, Any], normalize: bool, same: bool
) -> None:
    if config:
        small.config(None, **config)
    one, other = record("R", "a", x=1, y=2), record("R", "a", y=2, x=1)
    first, _ = small.place("s", one, normalize=normalize)
    second, _ = small.place("t", other, normalize=normalize)
    assert (first == second) is same


def test_normalizing_sorts_references_and_drops_repeated_ones(small: SmallRegistry) -> None:
    small.register("a", record("A"))
    small.register("b", record("B"))
    one, two = Reference("A", "a", 1), Reference("B", "b", 1)
    uses = '{"type":"record","name":"R","fields":[{"name":"x","type":"A"},{"name":"y","type":"B"}]}'
    reply = small.register("s", uses, references=[two, one, two], normalize=True)
    assert [each["name"] for each in reply["references"]] == ["A", "B"]


class TestNumbering:
    def test_soft_deleted_versions_count_and_the_same_schema_keeps_its_id(self, small: SmallRegistry) -> None:
        small.level(None, "NONE")
        small.register("s", STRING)
        small.register("s", INT)
        small.delete("s")
        assert small.place("s", INT) == (2, 3)
        assert small.last_keys == [("SCHEMA", "s", 2, False), ("SCHEMA", "s", 3, True)]
        assert small.lookup("s", STRING, deleted=True)["version"] == 1

    def test_a_soft_deleted_version_that_is_referred_to_is_not_forgotten(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a"))
        uses = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'
        small.register("u", uses, references=[reference("s")])
        small.delete("u")
        small.delete("s")
        assert small.place("s", record("R", "a")) == (1, 2)
        assert small.last_keys == [("SCHEMA", "s", 2, True)]

    def test_permanent_deletion_starts_again_at_one_with_a_new_id(self, small: SmallRegistry) -> None:
        small.register("s")
        small.purge("s")
        assert small.place("s") == (2, 1)

    def test_a_permanently_deleted_highest_version_is_given_again(self, small: SmallRegistry) -> None:
        small.level(None, "NONE")
        for schema in (STRING, INT, LONG):
            small.register("s", schema)
        small.purge("s", 3)
        assert small.place("s", '"bytes"') == (4, 3)

    def test_metadata_alone_makes_a_version(self, small: SmallRegistry) -> None:
        small.register("s")
        assert small.place("s", metadata=properties(k="v")) == (2, 2)

    @pytest.mark.parametrize("version", [2, 7])
    def test_a_version_that_is_not_the_next_is_refused(self, small: SmallRegistry, version: int) -> None:
        assert small.refusal(Register("s", STRING, version=version)) == (
            42201,
            "Version is not one more than previous version",
        )

    def test_the_next_version_may_be_named(self, small: SmallRegistry) -> None:
        reply = small.register("s", version=1)
        assert (reply["version"], reply["metadata"]) == (1, {"properties": {"confluent:version": "1"}})

    def test_version_minus_one_is_the_next_and_marked(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s")
        reply = small.register("s", INT, version=-1)
        assert (reply["version"], reply["metadata"]) == (2, {"properties": {"confluent:version": "2"}})

    def test_the_mark_follows_the_version(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s", INT, version=1)
        assert small.register("s", LONG)["metadata"] == {"properties": {"confluent:version": "2"}}

    def test_version_minus_one_looks_at_the_latest_only(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s", STRING)
        small.register("s", INT)
        assert small.place("s", INT, version=-1) == (2, 2)
        assert small.last == []
        assert small.place("s", STRING, version=-1)[1] == 3

    def test_beyond_the_highest_version_is_refused(self, small: SmallRegistry) -> None:
        small.mode("s", "IMPORT")
        small.register("s", schema_id=1, version=VERSION_MAX)
        small.mode("s", "READWRITE")
        assert small.refusal(Register("s", INT, force=True))[0] == 42201


class TestInheritance:
    def test_metadata_is_inherited_so_leaving_it_out_changes_nothing(self, small: SmallRegistry) -> None:
        small.register("s", metadata=properties(k="v"))
        reply = small.register("s")
        assert (reply["version"], reply["metadata"]) == (1, {"properties": {"k": "v"}})
        assert small.last == []

    def test_rules_are_stored_and_inherited(self, small: SmallRegistry) -> None:
        rules = RuleSet(domain_rules=[Rule("r", type="CEL", expr="true")])
        stored = small.register("s", rule_set=rules)["ruleSet"]["domainRules"][0]
        assert (stored["kind"], stored["mode"], stored["disabled"]) == ("TRANSFORM", "WRITEREAD", False)
        small.level("s", "NONE")
        assert small.register("s", INT)["ruleSet"]["domainRules"] == [stored]

    def test_an_empty_text_means_the_latest_with_my_metadata(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a"))
        reply = small.register("s", " ", metadata=properties(k="v"))
        assert (reply["version"], orjson.loads(reply["schema"])["name"]) == (2, "R")
        assert reply["metadata"] == {"properties": {"k": "v"}}

    def test_an_empty_text_without_a_latest_version_is_refused(self, small: SmallRegistry) -> None:
        assert small.refusal(Register("s", "")) == (42201, "Empty schema")

    def test_empty_metadata_is_not_no_metadata(self, small: SmallRegistry) -> None:
        small.register("s")
        reply = small.register("s", metadata=Metadata())
        assert (reply["version"], reply["metadata"]) == (2, {})

    def test_config_gives_defaults_and_overrides(self, small: SmallRegistry) -> None:
        small.config(
            "s",
            defaultMetadata={"properties": {"a": "default", "b": "default", "c": "default"}},
            overrideMetadata={"properties": {"c": "override"}},
        )
        meta = small.register("s", metadata=properties(b="sent", c="sent"))["metadata"]
        assert meta == {"properties": {"a": "default", "b": "sent", "c": "override"}}

    def test_a_config_that_adds_takes_the_short_cut_away(self, small: SmallRegistry) -> None:
        small.register("s")
        small.config("s", defaultMetadata={"properties": {"a": "1"}})
        assert small.register("s")["version"] == 2
        small.mode("s", "READONLY")
        assert small.refusal(Register("s", STRING))[0] == 42205

    def test_under_a_config_that_adds_the_mode_is_checked_before_the_text(self, small: SmallRegistry) -> None:
        small.mode("s", "READONLY")
        assert small.refusal(Register("s", "nonsense"))[0] == 42201
        small.mode("s", "READWRITE")
        small.config("s", defaultMetadata={"properties": {"a": "1"}})
        assert small.refusal(Register("s", "nonsense"))[0] == 42201
        small.mode("s", "READONLY")
        assert small.refusal(Register("s", "nonsense"))[0] == 42205

    def test_nothing_is_inherited_by_imports(self, small: SmallRegistry) -> None:
        small.register("s", metadata=properties(k="v"))
        small.mode("s", "IMPORT", force=True)
        assert "metadata" not in small.register("s", schema_id=9, version=5)


class TestModes:
    @pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
    def test_read_only_refuses_what_is_new_and_finds_what_is_there(
        self, small: SmallRegistry, mode: str
    ) -> None:
        first = small.register("s")
        small.mode("s", mode)
        assert small.register("s") == first
        assert small.refusal(Register("s", INT)) == (42205, "Subject s in context  is in read-only mode")

    def test_the_context_is_named(self, small: SmallRegistry) -> None:
        small.mode(":.ctx:", "READONLY")
        assert small.refusal(Register(":.ctx:s", INT)) == (
            42205,
            "Subject :.ctx:s in context :.ctx: is in read-only mode",
        )

    def test_an_id_needs_import_mode(self, small: SmallRegistry) -> None:
        assert small.refusal(Register("s", STRING, schema_id=5)) == (
            42205,
            "Subject s in context  is not in import mode",
        )

    def test_import_mode_needs_an_id(self, small: SmallRegistry) -> None:
        small.mode("s", "IMPORT")
        assert small.refusal(Register("s", STRING)) == (
            42205,
            "Subject s in context  is not in read-write mode",
        )

    def test_import_mode_finds_what_is_there_without_an_id(self, small: SmallRegistry) -> None:
        small.register("s")
        small.mode("s", "IMPORT", force=True)
        assert small.place("s") == (1, 1)

    def test_forward_mode_takes_ids_everywhere(self, small: SmallRegistry) -> None:
        small.mode(":.__GLOBAL:", "FORWARD")
        assert small.place("s", schema_id=7, version=4) == (7, 4)


class TestImport:
    @pytest.fixture(autouse=True)
    def importing(self, small: SmallRegistry) -> None:
        small.mode(None, "IMPORT")

    def test_id_and_version_stand_as_given(self, small: SmallRegistry) -> None:
        assert small.place("s", STRING, schema_id=50, version=9) == (50, 9)
        assert small.place("s", INT, schema_id=40, version=3) == (40, 3)

    def test_without_a_version_the_next_one_is_taken(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=50, version=9)
        assert small.place("s", INT, schema_id=51) == (51, 10)

    def test_without_a_version_the_same_schema_is_found(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=50, version=9)
        assert small.place("s", STRING, schema_id=50) == (50, 9)

    def test_the_next_allocated_id_is_above(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=50, version=1)
        small.mode(None, "READWRITE")
        assert small.place("t", INT) == (51, 1)

    def test_id_nought_may_be_imported(self, small: SmallRegistry) -> None:
        assert small.place("s", schema_id=0) == (0, 1)

    def test_an_id_with_other_content_is_refused(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=5)
        assert small.refusal(Register("t", INT, schema_id=5)) == (
            42205,
            "Overwrite new schema with id 5 in context  is not permitted.",
        )
        small.mode(":.ctx:", "IMPORT")
        assert small.place(":.ctx:t", INT, schema_id=5) == (5, 1)

    def test_one_content_may_have_two_ids_and_the_last_one_stands_for_it(self, small: SmallRegistry) -> None:
        small.register("a", STRING, schema_id=5)
        small.register("b", STRING, schema_id=3)
        small.mode(None, "READWRITE")
        assert small.place("c", STRING) == (3, 1)
        assert small.place("a", STRING) == (5, 1)

    def test_one_schema_may_be_imported_under_several_versions(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=5, version=1)
        assert small.place("s", STRING, schema_id=5, version=4) == (5, 4)
        small.mode(None, "READWRITE")
        assert small.place("s", STRING, schema_id=5, version=1) == (5, 1)
        assert small.last == []

    def test_a_version_is_overwritten(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=5, version=1)
        small.register("s", INT, schema_id=6, version=1)
        assert small.missing("s", STRING) == 40403
        assert small.lookup("s", INT)["version"] == 1

    def test_importing_a_soft_deleted_version_again_brings_it_back(self, small: SmallRegistry) -> None:
        small.register("s", STRING, schema_id=5, version=1)
        small.delete("s")
        small.register("s", STRING, schema_id=5, version=1)
        assert small.lookup("s")["version"] == 1

    def test_neither_compatibility_nor_names_nor_defaults_are_checked(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a"), schema_id=1)
        small.register("s", record("R", "a", "b"), schema_id=2)
        field = '{"name":"a","type":"int","default":"x"}'
        odd = f'{{"type":"record","name":"R","namespace":"a-b","fields":[{field}]}}'
        assert small.place("t", odd, schema_id=3) == (3, 1)

    def test_references_must_be_there_but_may_be_soft_deleted(self, small: SmallRegistry) -> None:
        uses = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'
        assert small.refusal(Register("u", uses, references=[reference("r")], schema_id=2))[0] == 42201
        small.register("r", record("R"), schema_id=1)
        small.delete("r")
        assert small.place("u", uses, references=[reference("r")], schema_id=2) == (2, 1)

    def test_an_empty_text_is_refused(self, small: SmallRegistry) -> None:
        small.register("s", schema_id=1)
        assert small.refusal(Register("s", "", schema_id=2)) == (42201, "Empty schema")


def _checked(**rule: Any) -> Rule:
    return Rule(**{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"} | rule)


class TestContentsWithOneGuid:
    """The hash behind a guid covers the parts of a content without the boundaries between them."""

    PAIRS = pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"metadata": properties(a="bc")}, {"metadata": properties(ab="c")}),
            ({"metadata": properties(abc="")}, {"metadata": Metadata(sensitive=["abc"])}),
            ({"metadata": Metadata(tags={"a": ["b"]})}, {"metadata": properties(a="b")}),
            ({"metadata": Metadata()}, {"metadata": Metadata(properties={"": ""})}),
            (
                {"rule_set": RuleSet(domain_rules=[_checked()])},
                {"rule_set": RuleSet(encoding_rules=[_checked()])},
            ),
            (
                {"rule_set": RuleSet(domain_rules=[_checked(name="r1")])},
                {"rule_set": RuleSet(domain_rules=[_checked(doc="1")])},
            ),
            (
                {"references": [Reference("ab", "c", 1)]},
                {"references": [Reference("a", "bc", 1)]},
            ),
        ],
    )

    @staticmethod
    def _begin(small: SmallRegistry) -> None:
        small.register("c", record())
        small.register("bc", record())

    @PAIRS
    def test_one_does_not_get_the_id_of_the_other(
        self, small: SmallRegistry, first: dict[str, Any], second: dict[str, Any]
    ) -> None:
        self._begin(small)
        found = small.register("s", STRING, **first)
        text = f"Overwrite new schema with id {found['id']} in context  is not permitted."
        for subject in ("s", "t"):
            assert small.refusal(Register(subject, STRING, **second)) == (42205, text)
        assert small.missing("s", STRING, **second) == 40403
        assert small.register("s", STRING, **first) == found
        assert small.place("t", STRING, **first) == (found["id"], 1)

    def test_a_stored_hash_is_believed_where_the_metadata_cannot_be_read(self, small: SmallRegistry) -> None:
        plain = Metadata(properties={"pw": "secret"}, sensitive=["pw"])
        read = Metadata(properties={"__enc__": "true", "pw": "AbCd"}, sensitive=["pw"])
        value = values.schema_value(
            Subject.parse("s"), 1, 4, STRING, metadata=read, md5=identity(STRING, meta=plain)
        )
        small.append(records.schema_key(Subject.parse("s"), 1), value)
        assert small.place("s", STRING, metadata=plain) == (4, 1)
        assert small.place("t", STRING, metadata=plain) == (4, 1)

    @PAIRS
    def test_both_may_be_imported_with_an_id_of_their_own(
        self, small: SmallRegistry, first: dict[str, Any], second: dict[str, Any]
    ) -> None:
        self._begin(small)
        small.mode(None, "IMPORT", force=True)
        assert small.place("s", STRING, schema_id=7, **first) == (7, 1)
        assert small.refusal(Register("s", STRING, schema_id=7, **second))[0] == 42205
        assert small.place("s", STRING, schema_id=8, **second) == (8, 2)
        small.mode(None, "READWRITE")
        for members, place in ((first, (7, 1)), (second, (8, 2))):
            assert small.place("s", STRING, **members) == place
            assert small.place("t", STRING, **members)[0] == place[0]
            assert small.lookup("s", STRING, **members)["version"] == place[1]


class TestReferences:
    USES = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'

    def test_minus_one_becomes_the_number(self, small: SmallRegistry) -> None:
        small.register("r", record("R", "a"))
        small.register("r", record("R", "a", "b?"))
        reply = small.register("u", self.USES, references=[reference("r", -1)])
        assert reply["references"] == [{"name": "R", "subject": "r", "version": 2}]

    def test_the_refusal_says_what_was_sought_and_where(self, small: SmallRegistry) -> None:
        code, message = small.refusal(Register("u", self.USES, references=[reference("r", 3)]))
        assert code == 42201
        assert message == (
            "Invalid schema of type AVRO, details: Invalid schema {subject=u,version=null,id=null,"
            "guid=f8f1617a-ec30-4599-dfc4-2066ec3698eb,schemaType=AVRO,references=[{name='R', subject='r', "
            f"version=3}}],metadata=null,ruleSet=null,schema={self.USES},schemaTags=null,ts=null,"
            "deleted=null} with refs [{name='R', subject='r', version=3}] of type AVRO, details: "
            'No schema reference found for subject "r" and version 3'
        )

    def test_what_is_new_does_not_see_soft_deleted_versions(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        small.delete("r")
        command = Register("u", self.USES, references=[reference("r")])
        assert small.refusal(command)[0] == 42201
        small.config(None, validateNewSchemas=False)
        assert small.register("u", self.USES, references=[reference("r")])["version"] == 1

    def test_a_subject_lies_in_the_context_of_who_names_it(self, small: SmallRegistry) -> None:
        small.register(":.ctx:r", record("R"))
        assert small.place(":.ctx:u", self.USES, references=[reference("r")]) == (2, 1)
        assert small.place(":.other:u", self.USES, references=[reference(":.ctx:r")]) == (1, 1)
        assert small.refusal(Register("u", self.USES, references=[reference("r")]))[0] == 42201

    def test_the_subject_as_written_is_part_of_the_identity(self, small: SmallRegistry) -> None:
        small.register(":.ctx:r", record("R"))
        one, _ = small.place(":.ctx:u", self.USES, references=[reference("r")])
        other, _ = small.place(":.ctx:v", self.USES, references=[reference(":.ctx:r")])
        assert one != other

    def test_a_schema_sent_with_all_types_inlined_is_the_same(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        stored = small.place("u", self.USES, references=[reference("r")])
        inlined = f'{{"type":"record","name":"U","fields":[{{"name":"x","type":{record("R")}}}]}}'
        assert small.place("u", inlined) == stored

    def test_a_subject_may_refer_to_itself(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s", record("R"))
        assert small.place("s", self.USES, references=[reference("s")]) == (2, 2)

    def test_a_strong_association_forbids_references_unless_the_rules_are_former(self) -> None:
        key = AssociationKey(Subject.parse("r"), "n", "ns", "topic", "value")
        free = SmallRegistry(Defaults(association_rules=ASSOCIATION_RULES["8.3"]))
        free.register("r", record("R"))
        free.append(association_key(key), b'{"lifecycle":"STRONG"}')
        assert free.register("u", self.USES, references=[reference("r")])["id"] == 2
        small = SmallRegistry()
        small.register("r", record("R"))
        small.append(association_key(key), b'{"lifecycle":"STRONG"}')
        assert small.refusal(Register("u", self.USES, references=[reference("r")])) == (
            42205,
            "Subject 'r' has a strong association and cannot be referenced",
        )


class TestRefusals:
    @pytest.mark.parametrize(
        "subject",
        ["a\x00b", "a\nb", "a\x7f", "a\x85", "__GLOBAL", "__EMPTY", ":.__GLOBAL:s", ":.ctx:__GLOBAL"],
    )
    def test_names_that_must_not_be_written(self, small: SmallRegistry, subject: str) -> None:
        assert small.refusal(Register(subject, STRING)) == (
            42208,
            f"The specified subject '{subject}' is not a valid.",
        )

    @pytest.mark.parametrize("subject", [":ctx:name", ":.a:b:c", "a/b", "é\u00ad\u2028", "x" * 600])
    def test_names_that_look_odd_but_are_fine(self, small: SmallRegistry, subject: str) -> None:
        assert small.place(subject) == (1, 1)
        assert small.lookup(subject)["subject"] == subject

    @pytest.mark.parametrize("subject", ["", "*"])
    def test_empty_subjects_where_the_setting_refuses_them(self, subject: str) -> None:
        assert SmallRegistry().place(subject) == (1, 1)
        strict = SmallRegistry(Defaults(reject_empty_subject=True))
        assert strict.refusal(Register(subject, STRING))[0] == 42208

    @pytest.mark.parametrize("kind", ["avro", "json", "XML", ""])
    def test_types_that_are_not_served(self, small: SmallRegistry, kind: str) -> None:
        command = Register("s", "{}", schema_type=kind)
        assert small.refusal(command) == (42201, f"Invalid schema type {kind}")

    def test_incompatible_schemas(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a"))
        code, message = small.refusal(Register("s", record("R", "a", "b")))
        old = record("R", "a")
        assert code == 40901
        assert message == (
            'Schema being registered is incompatible with an earlier schema for subject "s", details: '
            "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
            "'/fields/1' in the new schema has no default value and is missing in the old schema', "
            "additionalInfo:'b'}, "
            f"{{oldSchemaVersion: 1}}, {{oldSchema: '{old}'}}, "
            "{validateFields: 'false', compatibility: 'BACKWARD'}]"
        )
        assert small.place("s", record("R", "a", "b"), force=True) == (2, 2)

    def test_the_order_of_refusals(self, small: SmallRegistry) -> None:
        """Each error hides those that come after it."""
        small.register("s", record("R", "a"))
        small.mode("s", "READONLY")
        rules = RuleSet(domain_rules=[Rule("1")])
        bad = record("R", "a", "b")
        everything: dict[str, Any] = {"rule_set": rules, "version": 9}
        assert small.refusal(Register("a\x00", "no schema", **everything))[0] == 42210
        assert small.refusal(Register("a\x00", "no schema"))[0] == 42208
        assert small.refusal(Register("s", "no schema"))[0] == 42201
        assert small.refusal(Register("s", bad, version=9))[0] == 42205
        strict = '{"type":"record","name":"Ré","fields":[]}'
        assert small.refusal(Register("s", strict))[0] == 42205
        small.mode("s", None)
        assert small.refusal(Register("s", strict))[0] == 42201
        assert small.refusal(Register("s", bad, version=9))[0] == 40901
        assert small.refusal(Register("s", record("R", "a", "b?"), version=9))[0] == 42201

    def test_what_was_registered_leniently_is_still_found(self, small: SmallRegistry) -> None:
        lenient = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
        small.config("s", validateNewSchemas=False)
        small.register("s", lenient)
        small.drop_config("s")
        assert small.place("s", lenient) == (1, 1)
        assert small.refusal(Register("t", lenient))[0] == 42201

    def test_used_up_ids_are_said(self, small: SmallRegistry) -> None:
        small.append(records.reservation_key("."), values.reservation_value(ID_MAX))
        small.mode("s", "IMPORT")
        small.register("s", schema_id=ID_MAX)
        code, message = small.refusal(Register("t", INT))
        assert code == 40982
        assert str(ID_MAX) in message
        assert small.place("t", STRING) == (ID_MAX, 1)
        assert small.place(":.ctx:t", INT) == (1, 1)


def test_a_format_changes_only_the_text_of_the_reply(small: SmallRegistry) -> None:
    small.register("r", record("R"))
    uses = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'
    plain = small.register("u", uses, references=[reference("r")])
    resolved = small.register("u", uses, references=[reference("r")], format="resolved")
    assert resolved["guid"] == plain["guid"]
    assert orjson.loads(resolved["schema"])["fields"][0]["type"]["name"] == "R"
    new = small.register("v", uses, references=[reference("r")], format="RESOLVED")
    assert new["schema"] == resolved["schema"]


def test_canonical_text_is_not_parsed_again(small: SmallRegistry) -> None:
    """The reader is trusted to have parsed the text; this one is not even a schema."""
    assert small.register("s", "not parsed", canonical=True)["schema"] == "not parsed"


def test_versions_of_types_that_are_not_served_are_respected(small: SmallRegistry) -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    small.append(key, values.schema_value(Subject.parse("s"), 1, 7, "{}", schema_type="XML"))
    code, message = small.refusal(Register("s", STRING))
    assert code == 40901
    assert "[Incompatible because of different schema type, {validateFields" in message
    small.level("s", "NONE")
    assert small.place("s", STRING) == (8, 2)
