"""Compatibility: levels, groups, reserved fields, and the messages."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.domain.commands import Register
from registry.domain.compatibility import subject_check
from registry.domain.errors import RegistryError
from registry.domain.log_format.records import schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.domain.queries.scope import Defaults
from tests.unit.small_registry import INT, STRING, SmallRegistry, properties, record

A, AB, AB_DEFAULT = record("R", "a"), record("R", "a", "b"), record("R", "a", "b?")
RULES = "{validateFields: 'false', compatibility: '%s'}"


def check(
    small: SmallRegistry, subject: str, schema: str, number: int | None = None, **members: Any
) -> list[str]:
    """Return the messages of the compatibility resources."""
    request = Register(subject, schema, **members)
    body = small.parser.run(
        subject_check.answer(
            small.view,
            small.parser.memory,
            small.configured(subject),
            request,
            number,
            small.defaults,
            verbose=True,
        )
    )
    answer = orjson.loads(body)
    assert answer["is_compatible"] is not bool(answer["messages"])
    return list(answer["messages"])


def missing(reader: str) -> str:
    other = "old" if reader == "new" else "new"
    return (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' "
        f"in the {reader} schema has no default value and is missing in the {other} schema', "
        "additionalInfo:'b'}"
    )


@pytest.mark.parametrize(
    ("level", "add", "add_default", "remove"),
    [
        ("NONE", True, True, True),
        ("BACKWARD", False, True, True),
        ("BACKWARD_TRANSITIVE", False, True, True),
        ("FORWARD", True, True, False),
        ("FORWARD_TRANSITIVE", True, True, False),
        ("FULL", False, True, False),
        ("FULL_TRANSITIVE", False, True, False),
    ],
)
def test_levels(small: SmallRegistry, level: str, add: bool, add_default: bool, remove: bool) -> None:
    small.register("one", A)
    small.register("two", AB)
    small.level(None, level)
    assert (check(small, "one", AB) == []) is add
    assert (check(small, "one", AB_DEFAULT) == []) is add_default
    assert (check(small, "two", A) == []) is remove


@pytest.mark.parametrize(
    ("level", "compatible"),
    [
        ("BACKWARD", True),
        ("BACKWARD_TRANSITIVE", False),
        ("FORWARD", True),
        ("FULL", True),
        ("FULL_TRANSITIVE", False),
    ],
)
def test_only_transitive_levels_look_beyond_the_latest(
    small: SmallRegistry, level: str, compatible: bool
) -> None:
    small.level("s", "NONE")
    small.register("s", record("R", "a"))
    small.register("s", record("R", "a", "b?"))
    small.level("s", level)
    assert (check(small, "s", record("R", "a", "b")) == []) is compatible


def test_a_transitive_check_reports_the_newest_version_that_fails_and_stops(small: SmallRegistry) -> None:
    small.level("s", "NONE")
    for schema in (STRING, record("R", "z"), AB_DEFAULT):
        small.register("s", schema)
    small.level("s", "BACKWARD_TRANSITIVE")
    messages = check(small, "s", AB)
    assert "{oldSchemaVersion: 2}" in messages
    assert "{oldSchemaVersion: 1}" not in messages


def test_soft_deleted_versions_take_no_part(small: SmallRegistry) -> None:
    small.register("s", A)
    small.delete("s", 1)
    assert check(small, "s", AB) == []
    assert small.place("s", AB) == (2, 2)


class TestMessages:
    def test_the_whole_list(self, small: SmallRegistry) -> None:
        small.register("s", A)
        assert check(small, "s", AB) == [
            missing("new"),
            "{oldSchemaVersion: 1}",
            f"{{oldSchema: '{A}'}}",
            RULES % "BACKWARD",
        ]

    def test_forward(self, small: SmallRegistry) -> None:
        small.register("s", AB)
        small.level("s", "FORWARD")
        assert check(small, "s", A)[0] == missing("old")

    def test_full_reports_what_the_old_cannot_read_first(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "x"))
        small.level("s", "FULL")
        messages = check(small, "s", record("R", "y"))
        assert "in the old schema has no default" in messages[0]
        assert "in the new schema has no default" in messages[1]
        assert messages[-1] == RULES % "FULL"
        assert len(messages) == 5

    def test_a_long_old_schema_is_cut(self, small: SmallRegistry) -> None:
        small.register("s", record("R", "a", doc="d" * 20_000))
        (shown,) = (each for each in check(small, "s", AB) if each.startswith("{oldSchema:"))
        assert shown.startswith('{oldSchema: <truncated> \'{"type":"record"')
        assert shown.endswith("ddd...'}")
        assert len(shown) == len("{oldSchema: <truncated> '...'}") + 10_240

    def test_the_limit_itself_is_not_cut(self, small: SmallRegistry) -> None:
        fill = 10_240 - len(record("R", "a", doc=""))
        small.register("s", record("R", "a", doc="d" * fill))
        assert any(each.startswith("{oldSchema: '") for each in check(small, "s", AB))

    def test_another_type(self, small: SmallRegistry) -> None:
        where = Subject.parse("s")
        small.append(schema_key(where, 1), schema_value(where, 1, 1, "{}", schema_type="PROTOBUF"))
        assert check(small, "s", A) == ["Incompatible because of different schema type", RULES % "BACKWARD"]
        small.level("s", "NONE")
        assert check(small, "s", A) == []

    def test_a_stored_text_that_is_no_schema(self, small: SmallRegistry) -> None:
        small.register("s", "broken", canonical=True)
        message, *_ = check(small, "s", A)
        assert message.startswith("Unexpected exception during compatibility check: ")


class TestGroups:
    def test_only_versions_of_the_same_group_are_compared(self, small: SmallRegistry) -> None:
        small.config("s", compatibilityGroup="major")
        small.register("s", A, metadata=properties(major="1"))
        assert check(small, "s", AB, metadata=properties(major="2")) == []
        assert check(small, "s", AB, metadata=properties(major="1")) != []
        assert check(small, "s", AB) == []

    def test_no_group_is_a_group(self, small: SmallRegistry) -> None:
        small.config("s", compatibilityGroup="major")
        small.register("s", A)
        assert check(small, "s", AB) != []
        assert check(small, "s", AB, metadata=properties(major="2")) == []

    def test_the_latest_within_the_group_counts(self, small: SmallRegistry) -> None:
        small.config("s", compatibilityGroup="major")
        small.register("s", A, metadata=properties(major="1"))
        small.register("s", STRING, metadata=properties(major="2"))
        assert check(small, "s", AB, metadata=properties(major="1"))[1] == "{oldSchemaVersion: 1}"


class TestReservedFields:
    REMOVED = (
        "The new schema has reserved field b removed from its metadata which is present in the old schema's "
        "metadata."
    )
    CONFLICT = "The new schema has field that conflicts with the reserved field b."

    @pytest.fixture(autouse=True)
    def validating(self, small: SmallRegistry) -> None:
        small.config("s", validateFields=True, compatibilityLevel="NONE")

    def test_even_without_compatibility(self, small: SmallRegistry) -> None:
        reserved = properties(confluent__reserved="b, c")
        small.register("s", A, metadata=reserved)
        rules = "{validateFields: 'true', compatibility: 'NONE'}"
        assert check(small, "s", A, metadata=properties(confluent__reserved="c")) == [self.REMOVED, rules]
        assert check(small, "s", AB, metadata=reserved) == [self.CONFLICT, rules]
        assert check(small, "s", record("R", "z"), metadata=reserved) == []

    def test_the_first_version_too(self, small: SmallRegistry) -> None:
        reserved = properties(confluent__reserved="b")
        code, message = small.refusal(Register("s", AB, metadata=reserved))
        assert code == 40901
        assert self.CONFLICT in message

    def test_not_where_it_is_off(self, small: SmallRegistry) -> None:
        small.register("t", A, metadata=properties(confluent__reserved="b"))
        assert check(small, "t", AB_DEFAULT) == []


class TestAnswer:
    def answer(self, small: SmallRegistry, schema: str, number: int | None, **how: Any) -> dict[str, Any]:
        request, verbose = Register("s", schema), how.get("verbose", False)
        body = small.parser.run(
            subject_check.answer(
                small.view,
                small.parser.memory,
                small.configured("s"),
                request,
                number,
                Defaults(),
                verbose=verbose,
            )
        )
        answer: dict[str, Any] = orjson.loads(body)
        return answer

    def test_messages_only_where_verbose(self, small: SmallRegistry) -> None:
        small.register("s", A)
        assert self.answer(small, AB, 1) == {"is_compatible": False}
        assert self.answer(small, A, 1) == {"is_compatible": True}
        assert self.answer(small, A, 1, verbose=True) == {
            "is_compatible": True, "messages": [], "changes": [],
        }  # fmt: skip

    def test_one_version_is_compared_even_at_a_transitive_level(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s", INT)
        small.register("s", A)
        small.level("s", "FULL_TRANSITIVE")
        assert self.answer(small, A, 2) == {"is_compatible": True}
        assert self.answer(small, A, -1) == {"is_compatible": True}
        assert self.answer(small, A, 1) == {"is_compatible": False}
        assert self.answer(small, A, None) == {"is_compatible": False}

    @pytest.mark.parametrize("number", [-1, None])
    def test_a_missing_subject_has_nothing_to_be_incompatible_with(
        self, small: SmallRegistry, number: int | None
    ) -> None:
        assert self.answer(small, A, number) == {"is_compatible": True}

    def test_a_missing_version_is_40402_even_of_a_missing_subject(self, small: SmallRegistry) -> None:
        for _ in range(2):
            with pytest.raises(RegistryError, match="Version 7 not found") as refused:
                self.answer(small, "no schema", 7)
            assert refused.value.code == 40402
            small.register("s", A)
        small.delete("s", 1)
        with pytest.raises(RegistryError):
            self.answer(small, A, 1)

    @pytest.mark.parametrize(
        ("schema", "text"), [("", "Empty schema"), ("no schema", "Invalid schema {subject=s,")]
    )
    def test_what_cannot_be_parsed(self, small: SmallRegistry, schema: str, text: str) -> None:
        with pytest.raises(RegistryError) as refused:
            self.answer(small, schema, None)
        assert refused.value.code == 42201
        assert text in refused.value.message
        answer = self.answer(small, schema, None, verbose=True)
        assert answer["is_compatible"] is False
        assert text in answer["messages"][0]

    def test_nothing_is_written_and_no_mode_asked(self, small: SmallRegistry) -> None:
        small.register("s", A)
        small.mode(None, "READONLY")
        assert self.answer(small, AB_DEFAULT, None) == {"is_compatible": True}
