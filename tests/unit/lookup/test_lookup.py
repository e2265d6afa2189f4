"""Lookups, the tolerant comparison, and the registration that needs no write."""

from __future__ import annotations

import orjson
import pytest

from registry.domain.commands import Register
from registry.domain.log_format import records, values
from registry.domain.lookup import find
from registry.domain.lookup.metadata import with_version
from registry.domain.model import Metadata, Reference, Rule, RuleSet, Subject
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.schema_queries import Source
from registry.domain.schemas import InvalidSchema
from tests.unit.small_registry import INT, STRING, SmallRegistry, properties, record, reference

USES = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'


class TestLookup:
    def test_by_content_shows_no_times(self, small: SmallRegistry) -> None:
        small.register("s")
        assert small.lookup("s", ' "string"') == {
            "subject": "s",
            "version": 1,
            "id": 1,
            "guid": "095d71cf-1255-6b9d-5e33-0ad575b3df5d",
            "schemaType": "AVRO",
            "schema": STRING,
        }

    def test_a_tolerant_hit_is_the_stored_entity(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a", x=1, y=2))
        found = small.lookup("s", record("R", "a", y=2, x=1))
        assert (found["version"], found["deleted"], found["ts"]) == (1, False, 1001)
        assert found["schema"] == record("R", "a", x=1, y=2)

    def test_not_found(self, small: SmallRegistry) -> None:
        assert small.missing("s") == 40401
        small.register("s")
        assert small.missing("s", INT) == 40403
        assert small.missing("s", "no schema") == 42201
        assert small.missing("none", "no schema") == 42201
        assert small.missing("s", STRING, schema_type="XML") == 42201

    def test_soft_deleted_versions_only_where_asked_for(self, small: SmallRegistry) -> None:
        small.register("s")
        small.delete("s")
        assert small.missing("s") == 40401
        assert small.lookup("s", deleted=True)["version"] == 1
        assert small.missing("s", INT, deleted=True) == 40403

    def test_no_text_is_not_found(self, small: SmallRegistry) -> None:
        assert small.missing("s", "") == 40401
        small.register("s", metadata=properties(k="v"))
        assert small.missing("s", "") == 40403
        assert small.missing("s", " ", metadata=properties(k="v")) == 40403

    def test_metadata_that_was_left_out_is_inherited(self, small: SmallRegistry) -> None:
        small.register("s", metadata=properties(k="v"))
        assert small.lookup("s")["version"] == 1
        assert small.missing("s", metadata=properties(k="other")) == 40403

    def test_the_defaults_of_the_config_are_tried_too(self, small: SmallRegistry) -> None:
        small.config("s", defaultMetadata={"properties": {"a": "1"}})
        small.register("s")
        assert small.lookup("s")["metadata"] == {"properties": {"a": "1"}}

    def test_an_unqualified_subject_is_sought_in_every_context(self, small: SmallRegistry) -> None:
        small.register(":.b:s", INT)
        small.register(":.a:s", STRING)
        assert small.lookup("s", INT)["subject"] == ":.b:s"
        assert small.lookup("s", STRING)["subject"] == ":.a:s"
        assert small.missing(":.c:s", INT) == 40401
        small.register("s", STRING)
        assert small.lookup("s", INT)["subject"] == ":.b:s"

    def test_refusals_in_other_contexts_are_swallowed(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        small.register(":.b:r", record("R"))
        small.register(":.a:s", STRING)
        small.register(":.b:s", USES, references=[reference("r")])
        assert small.lookup("s", USES, references=[reference("r")])["subject"] == ":.b:s"

    def test_normalized(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a", x=1, y=2), normalize=True)
        assert "ts" not in small.lookup("s", record("R", "a", y=2, x=1), normalize=True)
        small.config(None, normalize=True)
        assert "ts" not in small.lookup("s", record("R", "a", y=2, x=1))

    def test_a_format(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        small.register("u", USES, references=[reference("r")])
        found = small.lookup("u", USES, references=[reference("r")], format="resolved")
        assert orjson.loads(found["schema"])["fields"][0]["type"]["type"] == "record"


class TestTolerance:
    @pytest.mark.parametrize(
        ("stored", "sent", "same"),
        [
            (None, None, True),
            (properties(k="v"), properties(k="v"), True),
            (properties(k="v"), properties(k="w"), False),
            (None, Metadata(), False),
            (Metadata(), None, False),
            (with_version(None, 1), None, True),
            (with_version(properties(k="v"), 1), properties(k="v"), True),
            (with_version(properties(k="v"), 1), None, False),
            (None, with_version(None, 1), True),
            (None, with_version(None, 2), False),
            (properties(k="v"), with_version(properties(k="v"), 1), True),
            (with_version(None, 1), with_version(None, 1), True),
            (with_version(None, 1), with_version(None, 2), False),
        ],
    )
    def test_metadata_must_be_equal_but_for_the_version(
        self, small: SmallRegistry, stored: Metadata | None, sent: Metadata | None, same: bool
    ) -> None:
        subject = Subject.parse("s")
        value = values.schema_value(subject, 1, 4, STRING, metadata=stored)
        small.append(records.schema_key(subject, 1), value)
        command = Register("s", STRING, metadata=sent)
        found = small.parser.run(
            find.already_registered(
                small.view, small.parser.memory, small.configured(command.subject), command, small.defaults
            )
        )
        assert (found is not None) is same

    def test_rules_must_be_equal(self, small: SmallRegistry) -> None:
        rules = RuleSet(domain_rules=[Rule("r", type="CEL")])
        small.register("s", rule_set=rules)
        assert small.place("s", rule_set=rules) == (1, 1)
        assert small.missing("s", rule_set=RuleSet()) == 40403

    @pytest.mark.parametrize(
        ("listed", "same"),
        [
            ([reference("r", 1)], True),
            ([reference("r", -1)], True),
            ([], True),
            ([reference(":.:r", 1)], False),
            ([reference("r", 1), Reference("Q", "q", 1)], False),
        ],
    )
    def test_references_must_be_equal_or_all_be_inlined(
        self, small: SmallRegistry, listed: list[Reference], same: bool
    ) -> None:
        small.register("r", record("R"))
        small.register("q", record("Q"))
        small.register("u", USES, references=[reference("r")])
        text = (
            USES
            if listed
            else f'{{"type":"record","name":"U","fields":[{{"name":"x","type":{record("R")}}}]}}'
        )
        if same:
            assert small.lookup("u", text, references=listed)["version"] == 1
        else:
            assert small.missing("u", text, references=listed) == 40403

    def test_the_newest_of_several_that_are_equivalent(self, small: SmallRegistry) -> None:
        small.mode(None, "IMPORT")
        one, other = record("R", "a", x=1, y=2, z=3), record("R", "a", y=2, x=1, z=3)
        small.register("s", one, schema_id=1, version=1)
        small.register("s", other, schema_id=2, version=2)
        assert small.lookup("s", record("R", "a", z=3, y=2, x=1))["version"] == 2

    def test_stored_texts_that_are_no_schema_match_nothing(self, small: SmallRegistry) -> None:
        subject = Subject.parse("s")
        for version, text, kind in ((1, "broken", "AVRO"), (2, STRING, "JSON")):
            value = values.schema_value(subject, version, version, text, schema_type=kind)
            small.append(records.schema_key(subject, version), value)
        assert small.missing("s", STRING) == 40403


class TestAlreadyRegistered:
    def reply(self, small: SmallRegistry, command: Register) -> bytes | None:
        return small.parser.run(
            find.already_registered(
                small.view, small.parser.memory, small.configured(command.subject), command, small.defaults
            )
        )

    def test_it_is_what_registering_answers(self, small: SmallRegistry) -> None:
        small.register("s")
        for command in (Register("s", STRING), Register("s", STRING, canonical=True)):
            reply = self.reply(small, command)
            assert reply is not None
            assert orjson.loads(reply) == small.submit(command)
        assert self.reply(small, Register("s", INT)) is None
        assert self.reply(small, Register("t", STRING)) is None
        assert self.reply(small, Register("s", "")) is None

    @pytest.mark.parametrize(
        ("members", "found"),
        [
            ({}, True),
            ({"schema_id": 1}, True),
            ({"schema_id": 2}, False),
            ({"version": -1}, True),
            ({"version": -1, "schema_id": 1}, True),
            ({"version": 1}, False),
            ({"version": 1, "schema_id": 1}, True),
            ({"version": 2, "schema_id": 1}, False),
        ],
    )
    def test_version_and_id_must_fit(
        self, small: SmallRegistry, members: dict[str, int], found: bool
    ) -> None:
        small.register("s")
        assert (self.reply(small, Register("s", STRING, **members)) is not None) is found  # type: ignore[arg-type]

    def test_not_under_a_config_that_adds(self, small: SmallRegistry) -> None:
        small.register("s")
        small.config("s", overrideRuleSet={})
        assert self.reply(small, Register("s", STRING)) is None

    def test_soft_deleted_ones_are_not_there(self, small: SmallRegistry) -> None:
        small.register("s")
        small.delete("s")
        assert self.reply(small, Register("s", STRING)) is None


class TestParser:
    def test_results_are_kept_and_the_oldest_go(self) -> None:
        parser = Parser(bytes_max=10_000)
        first = parser.read(Source("AVRO", STRING))
        assert parser.read(Source("AVRO", STRING)) is first
        for number in range(20):
            parser.read(Source("AVRO", record(f"R{number}", "a", "b", "c")))
        assert parser.read(Source("AVRO", STRING)) is not first

    def test_what_was_parsed_leniently_is_parsed_again_when_new(self) -> None:
        parser, odd = (
            Parser(),
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
        )
        parser.read(Source("AVRO", odd))
        with pytest.raises(InvalidSchema):
            parser.read(Source("AVRO", odd, new=True))

    def test_one_that_is_larger_than_everything_is_still_parsed(self) -> None:
        parser = Parser(bytes_max=10)
        assert parser.read(Source("AVRO", STRING)).canonical == STRING

    def test_long_texts_are_cut_in_messages(self, small: SmallRegistry) -> None:
        code, message = small.refusal(Register("s", "x" * 100_000))
        assert code == 42201
        assert len(message) < 12_000
