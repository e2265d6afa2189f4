"""Deletes, soft and permanent: their records, their replies, and the order of refusals."""

from __future__ import annotations

import orjson
import pytest

from registry.domain.commands import DeleteSubject, DeleteVersion
from registry.domain.log_format.records import AssociationKey, association_key, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.domain.queries.by_subject import version_numbers
from tests.unit.small_registry import INT, LONG, STRING, SmallRegistry, properties, record, reference

USES = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'


@pytest.fixture
def three(small: SmallRegistry) -> SmallRegistry:
    """Subject ``s`` with three versions."""
    small.level(None, "NONE")
    for schema in (STRING, INT, LONG):
        small.register("s", schema)
    return small


def numbers(registry: SmallRegistry, subject: str = "s") -> list[int]:
    return version_numbers(registry.view, Subject.parse(subject), deleted=True, deleted_as_negative=True)


class TestVersion:
    def test_a_soft_delete_says_the_version_again_as_deleted(self, small: SmallRegistry) -> None:
        small.register("s", metadata=properties(k="v"))
        assert small.delete("s", 1) == 1
        (entry,) = small.last
        assert entry.key == schema_key(Subject.parse("s"), 1)
        assert entry.value is not None
        value = orjson.loads(entry.value)
        assert value["deleted"] is True
        assert (value["id"], value["metadata"], value["schema"]) == (1, {"properties": {"k": "v"}}, STRING)

    def test_a_stored_md5_is_said_again(self, small: SmallRegistry) -> None:
        subject = Subject.parse("s")
        small.append(schema_key(subject, 1), schema_value(subject, 1, 4, STRING, md5=b"0123456789abcdef"))
        small.delete("s", 1)
        assert b'"md5":"MDEyMzQ1Njc4OWFiY2RlZg=="' in (small.last[0].value or b"")

    def test_the_latest_is_resolved(self, three: SmallRegistry) -> None:
        assert three.delete("s", -1) == 3
        assert three.delete("s", -1) == 2
        assert numbers(three) == [1, -2, -3]

    def test_a_permanent_delete_is_a_tombstone(self, three: SmallRegistry) -> None:
        three.delete("s", 2)
        assert three.delete("s", 2, permanent=True) == 2
        assert three.last_keys == [("SCHEMA", "s", 2, False)]
        assert numbers(three) == [1, 3]

    def test_the_last_version_takes_mode_and_config_along(self, small: SmallRegistry) -> None:
        small.register("s")
        small.level("s", "NONE")
        small.mode("s", "READWRITE")
        small.delete("s", 1)
        assert small.last_keys == [("SCHEMA", "s", 1, True)]
        small.delete("s", 1, permanent=True)
        assert small.last_keys == [
            ("SCHEMA", "s", 1, False),
            ("MODE", "s", None, False),
            ("CONFIG", "s", None, False),
        ]

    def test_the_empty_subject_does_not_take_the_top_level_along(self, small: SmallRegistry) -> None:
        small.register("")
        small.level(None, "FULL")
        small.purge("", 1)
        assert [keytype for keytype, *_ in small.last_keys] == ["SCHEMA"]

    @pytest.mark.parametrize(
        ("command", "code", "message"),
        [
            (DeleteVersion("none", 1), 40401, "Subject 'none' not found."),
            (DeleteVersion("none", -1), 40401, "Subject 'none' not found."),
            (DeleteVersion("s", 9), 40402, "Version 9 not found."),
            (DeleteVersion("gone", -1), 40402, "Version -1 not found."),
            (
                DeleteVersion("gone", 1),
                40406,
                "Subject 'gone' Version 1 was soft deleted.Set permanent=true to delete permanently",
            ),
            (
                DeleteVersion("s", 1, permanent=True),
                40407,
                "Subject 's' Version 1 was not deleted first before being permanently deleted",
            ),
            (
                DeleteVersion("s", -1, permanent=True),
                40407,
                "Subject 's' Version 3 was not deleted first before being permanently deleted",
            ),
        ],
    )
    def test_refusals(self, three: SmallRegistry, command: DeleteVersion, code: int, message: str) -> None:
        three.register("gone")
        three.delete("gone")
        assert three.refusal(command) == (code, message)

    def test_read_only_comes_after_what_is_not_there(self, three: SmallRegistry) -> None:
        three.mode(None, "READONLY")
        assert three.refusal(DeleteVersion("s", 9))[0] == 40402
        assert three.refusal(DeleteVersion("s", 1, permanent=True)) == (
            42205,
            "Subject s in context  is in read-only mode",
        )

    def test_a_soft_delete_minds_live_referrers_a_permanent_one_all(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        small.register("u", USES, references=[reference("r")])
        refused = (
            42206,
            "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=r,version=1}.",
        )
        assert small.refusal(DeleteVersion("r", 1)) == refused
        assert small.refusal(DeleteVersion("r", 1, permanent=True)) == refused
        small.delete("u")
        small.delete("r", 1)
        assert small.refusal(DeleteVersion("r", 1, permanent=True)) == refused
        small.delete("u", permanent=True)
        assert small.delete("r", 1, permanent=True) == 1

    @pytest.mark.parametrize(("used", "written"), [("r", ":.:r"), (":.ctx:r", "r"), (":.ctx:r", ":.ctx:r")])
    def test_a_reference_of_a_context_counts_in_the_context_that_it_means(
        self, small: SmallRegistry, used: str, written: str
    ) -> None:
        small.register(used, record("R"))
        small.register(":.ctx:u", USES, references=[reference(written)])
        assert small.refusal(DeleteVersion(used, 1))[0] == 42206

    def test_a_reference_to_itself_keeps_a_version_but_not_the_subject(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s", record("R"))
        small.register("s", USES, references=[reference("s")])
        assert small.refusal(DeleteVersion("s", 1))[0] == 42206
        assert small.delete("s") == [1, 2]
        assert small.refusal(DeleteVersion("s", 1, permanent=True))[0] == 42206
        assert small.delete("s", permanent=True) == [1, 2]


class TestSubject:
    def test_a_soft_delete_is_one_record(self, three: SmallRegistry) -> None:
        assert three.delete("s") == [1, 2, 3]
        (entry,) = three.last
        assert entry.key == b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'
        assert entry.value == b'{"subject":"s","version":3}'
        assert numbers(three) == [-1, -2, -3]

    def test_it_answers_what_it_deleted_and_names_the_highest_that_exists(self, three: SmallRegistry) -> None:
        three.delete("s", 3)
        assert three.delete("s") == [1, 2]
        assert three.last[0].value == b'{"subject":"s","version":3}'

    def test_mode_and_config_survive_it(self, three: SmallRegistry) -> None:
        three.level("s", "NONE")
        three.delete("s")
        three.register("s", record("R"))
        assert three.place("s", record("Q")) == (5, 5)

    def test_a_permanent_delete_goes_down_and_takes_mode_and_config_along(self, three: SmallRegistry) -> None:
        three.level("s", "NONE")
        three.mode("s", "READWRITE")
        three.delete("s")
        assert three.delete("s", permanent=True) == [1, 2, 3]
        assert three.last_keys == [
            ("SCHEMA", "s", 3, False),
            ("SCHEMA", "s", 2, False),
            ("SCHEMA", "s", 1, False),
            ("MODE", "s", None, False),
            ("CONFIG", "s", None, False),
        ]

    def test_refusals(self, three: SmallRegistry) -> None:
        assert three.refusal(DeleteSubject("none")) == (40401, "Subject 'none' not found.")
        assert three.refusal(DeleteSubject("none", permanent=True))[0] == 40401
        three.delete("s", 1)
        assert three.refusal(DeleteSubject("s", permanent=True)) == (
            40405,
            "Subject 's' was not deleted first before being permanently deleted",
        )
        three.delete("s")
        assert three.refusal(DeleteSubject("s")) == (
            40404,
            "Subject 's' was soft deleted.Set permanent=true to delete permanently",
        )
        three.mode("s", "READONLY")
        assert three.refusal(DeleteSubject("s"))[0] == 40404
        assert three.refusal(DeleteSubject("s", permanent=True))[0] == 42205

    def test_an_association_keeps_the_subject(self, three: SmallRegistry) -> None:
        key = AssociationKey(Subject.parse("s"), "n", "ns", "topic", "value")
        three.append(association_key(key), b'{"lifecycle":"WEAK"}')
        assert three.refusal(DeleteSubject("s")) == (40904, "An association already exists for subject 's'")

    def test_references_of_others_keep_it(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        small.register("u", USES, references=[reference("r")])
        assert small.refusal(DeleteSubject("r"))[0] == 42206
        small.delete("u")
        small.delete("r")
        assert small.refusal(DeleteSubject("r", permanent=True))[0] == 42206

    def test_versions_are_judged_in_order_references_first(self, small: SmallRegistry) -> None:
        """Version 1 is not deleted, version 2 is referred to: the error is about the lower version."""
        small.level("r", "NONE")
        small.register("r", INT)
        small.register("r", record("R"))
        small.register("u", USES, references=[reference("r", 2)])
        assert small.refusal(DeleteSubject("r", permanent=True))[0] == 40405
        small.delete("r", 1)
        assert small.refusal(DeleteSubject("r", permanent=True))[0] == 42206
