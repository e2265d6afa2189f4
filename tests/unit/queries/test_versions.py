"""Lookups of versions by subject, id and content; and lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from registry.domain.errors import RegistryError
from registry.domain.log_format import records, values
from registry.domain.model import Reference, Rule, RuleSet, Subject
from registry.domain.queries import by_subject, lists, versions
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import run_search
from registry.domain.rows.view import View
from tests.unit.small_registry import INT, LONG, STRING, SmallRegistry, properties, record

S = Subject.parse("s")


def refusal(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(RegistryError) as refused:
        call()
    return refused.value.code, refused.value.message


def place(found: Registered | None) -> tuple[str, int] | None:
    return None if found is None else (found.subject.qualified, found.version)


def of_id(view: View, schema_id: int, **how: bool) -> list[tuple[str, int]]:
    walk = lists.versions_of_id(view, ".", schema_id, **how)
    return [(each.found.subject.qualified, each.found.version) for each in walk if each is not None]


def schemas(view: View, prefix: str, **how: Any) -> list[tuple[str, int] | None]:
    walk = lists.Schemas(prefix, **how).walk(view)
    return [place(each.found) for each in walk if each is not None]


def foreign(small: SmallRegistry, subject: str, version: int, schema_id: int, schema: str) -> None:
    """Record a version as another writer may do, without our checks."""
    where = Subject.parse(subject)
    small.append(records.schema_key(where, version), values.schema_value(where, version, schema_id, schema))


@pytest.fixture
def mixed(small: SmallRegistry) -> SmallRegistry:
    """``s``: 1 live, 2 soft-deleted, 3 live. ``gone``: soft-deleted. ``s`` in another context too."""
    small.level(None, "NONE")
    for schema in (STRING, INT, LONG):
        small.register("s", schema)
    small.delete("s", 2)
    small.register("gone", INT)
    small.delete("gone")
    small.register(":.ctx:s", '"bytes"')
    small.register(":.ctx:only", '"float"')
    return small


class TestOfASubject:
    def test_soft_deleted_ones_only_where_asked_for(self, mixed: SmallRegistry) -> None:
        def numbers(**how: bool) -> list[int]:
            return [each.version for each in versions.versions(mixed.view, S, **how)]

        assert numbers() == [1, 3]
        assert numbers(deleted=True) == [1, 2, 3]
        assert numbers(deleted=True, newest_first=True) == [3, 2, 1]

    def test_latest_newest_exists(self, mixed: SmallRegistry) -> None:
        mixed.delete("s", 3)
        assert place(versions.latest(mixed.view, S)) == ("s", 1)
        assert place(versions.newest(mixed.view, S)) == ("s", 3)
        gone = Subject.parse("gone")
        assert versions.latest(mixed.view, gone) is None
        assert not versions.exists(mixed.view, gone)
        assert versions.exists(mixed.view, gone, deleted=True)

    def test_a_name_that_begins_like_another_is_another(self, small: SmallRegistry) -> None:
        small.register("s", STRING)
        small.register("s2", INT)
        assert versions.newest(small.view, Subject.parse("s")) != versions.newest(
            small.view, Subject.parse("s2")
        )

    @pytest.mark.parametrize("scope", ["gone", ":.:", None])
    def test_what_a_clear_forgot_is_absent(self, mixed: SmallRegistry, scope: str | None) -> None:
        """Other writers clear without tombstones; versions that are live or come later stay."""
        cleared = Subject.parse(scope or "")
        mixed.append(records.clear_subject_key(cleared), values.clear_subject_value(cleared))
        gone = Subject.parse("gone")
        assert versions.get(mixed.view, gone, 1) is None
        assert not versions.exists(mixed.view, gone, deleted=True)
        assert versions.exists(mixed.view, S)
        assert mixed.place("gone", INT)[1] == 1


class TestById:
    def test_the_first_recorded_version_answers(self, small: SmallRegistry) -> None:
        small.register("z")
        small.register("a")
        assert place(versions.by_id(small.view, ".", 1)) == ("z", 1)
        small.delete("z")
        assert place(versions.by_id(small.view, ".", 1)) == ("z", 1)
        small.delete("z", permanent=True)
        assert place(versions.by_id(small.view, ".", 1)) == ("a", 1)

    @pytest.mark.parametrize(
        ("scope", "schema_id", "expected"),
        [
            ("", 1, ("s", 1)),
            (":.ctx:", 1, (":.ctx:s", 1)),
            (":.ctx:", 3, None),
            ("s", 1, ("s", 1)),
            ("only", 2, (":.ctx:only", 1)),
            ("only", 3, ("s", 3)),
            ("none", 1, ("s", 1)),
            ("gone", 2, ("gone", 1)),
            (":.ctx:s", 1, (":.ctx:s", 1)),
            (":.ctx:s", 2, None),
            (":.:s", 3, ("s", 3)),
            ("s", 9, None),
        ],
    )
    def test_the_scope_of_an_id(
        self, mixed: SmallRegistry, scope: str, schema_id: int, expected: tuple[str, int] | None
    ) -> None:
        assert place(run_search(versions.by_id_in_scope(mixed.view, schema_id, scope))) == expected

    def test_an_id_bound_to_two_contents_is_found_under_both_subjects(self, small: SmallRegistry) -> None:
        foreign(small, "a", 1, 5, STRING)
        foreign(small, "b", 1, 5, INT)
        assert place(versions.by_id(small.view, ".", 5)) == ("a", 1)
        assert place(run_search(versions.by_id_in_scope(small.view, 5, "b"))) == ("b", 1)

    def test_one_version_for_each_subject_the_last_recorded(self, small: SmallRegistry) -> None:
        for subject, version in (("b", 2), ("b", 1), ("a", 1)):
            foreign(small, subject, version, 5, STRING)
        assert of_id(small.view, 5) == [("b", 1), ("a", 1)]

    def test_subjects_of_an_id(self, mixed: SmallRegistry) -> None:
        view = mixed.view
        assert of_id(view, 2) == []
        assert sorted(of_id(view, 2, deleted=True)) == [("gone", 1), ("s", 2)]
        assert refusal(lambda: run_search(by_subject.id_in_scope(view, 9, ""))) == (40403, "Schema not found")

    def test_the_highest_id(self, mixed: SmallRegistry) -> None:
        assert versions.id_max(mixed.view, ".") == 3
        assert versions.id_max(mixed.view, ".ctx") == 2
        assert versions.id_max(mixed.view, ".none") == 0
        assert versions.id_in_use(mixed.view, ".", 3)
        assert not versions.id_in_use(mixed.view, ".", 4)


def test_by_guid_the_default_context_first(small: SmallRegistry) -> None:
    small.register(":.b:s", STRING)
    small.register(":.a:s", STRING)
    small.register(":.a:t", INT)
    found = run_search(versions.by_guid(small.view, versions.by_id(small.view, ".b", 1).row.md5))  # type: ignore[union-attr]
    assert place(found) == (":.a:s", 1)
    assert found is not None
    assert [each for each in by_subject.ids_of_guid(small.view, found.row.md5) if each] == [
        (".a", 1),
        (".b", 1),
    ]
    small.register("s", STRING)
    assert place(run_search(versions.by_guid(small.view, found.row.md5))) == ("s", 1)
    assert run_search(versions.by_guid(small.view, bytes(16))) is None
    assert not any(by_subject.ids_of_guid(small.view, bytes(16)))


class TestQueries:
    @pytest.mark.parametrize(
        ("text", "number"),
        [("latest", -1), (" LATEST ", -1), ("-1", -1), ("1", 1), ("+7", 7), ("2147483647", 2**31 - 1)],
    )
    def test_version_segments(self, text: str, number: int) -> None:
        assert by_subject.parse_version(text) == number

    @pytest.mark.parametrize("text", ["0", "-2", "abc", "", "1.0", "2147483648", "1_0", "١", "9" * 5000])
    def test_segments_that_are_no_version(self, text: str) -> None:
        code, message = refusal(lambda: by_subject.parse_version(text))
        assert code == 42202
        assert message == (
            f"The specified version '{text}' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"'
        )

    @pytest.mark.parametrize(
        ("subject", "number", "deleted", "expected"),
        [
            ("s", 1, False, ("s", 1)),
            ("s", 2, False, (40402, "Version 2 not found.")),
            ("s", 2, True, ("s", 2)),
            ("s", -1, True, ("s", 3)),
            ("gone", -1, True, (40402, "Version -1 not found.")),
            ("gone", -1, False, (40401, "Subject 'gone' not found.")),
            ("gone", 1, False, (40401, "Subject 'gone' not found.")),
            ("only", 1, False, (":.ctx:only", 1)),
            ("only", -1, False, (":.ctx:only", 1)),
            ("only", 2, False, (40401, "Subject 'only' not found.")),
            (":.ctx:only", 2, False, (40402, "Version 2 not found.")),
            (":.other:s", 1, False, (40401, "Subject ':.other:s' not found.")),
        ],
    )
    def test_one_version(
        self, mixed: SmallRegistry, subject: str, number: int, deleted: bool, expected: tuple[Any, Any]
    ) -> None:
        def call() -> Registered:
            return run_search(
                by_subject.version_anywhere(mixed.view, Subject.parse(subject), number, deleted=deleted)
            )

        assert (refusal(call) if isinstance(expected[0], int) else place(call())) == expected

    @pytest.mark.parametrize(
        ("how", "subject", "expected"),
        [
            ({}, "s", [1, 3]),
            ({"deleted": True}, "s", [1, 2, 3]),
            ({"deleted_only": True}, "s", [2]),
            ({"deleted_as_negative": True}, "s", [1, -2, 3]),
            ({"deleted_as_negative": True, "deleted_only": True}, "gone", [-1]),
            ({"deleted_as_negative": True}, "gone", 40401),
            ({}, "gone", 40401),
            ({"deleted": True}, "gone", [1]),
            ({"deleted": True}, "none", 40401),
        ],
    )
    def test_version_numbers(
        self, mixed: SmallRegistry, how: dict[str, bool], subject: str, expected: list[int] | int
    ) -> None:
        def call() -> list[int]:
            return by_subject.version_numbers(mixed.view, Subject.parse(subject), **how)

        assert refusal(call)[0] == expected if isinstance(expected, int) else call() == expected

    @pytest.mark.parametrize(
        ("prefix", "how", "expected"),
        [
            (":*:", {}, [":.ctx:only", ":.ctx:s", "s"]),
            (":*:", {"deleted": True}, [":.ctx:only", ":.ctx:s", "gone", "s"]),
            (":*:", {"deleted_only": True}, ["gone"]),
            (":*:", {"deleted_only": True, "deleted": True}, ["gone"]),
            ("", {}, ["s"]),
            ("s", {}, ["s"]),
            ("g", {"deleted": True}, ["gone"]),
            ("x", {}, []),
            (":*:s", {}, [":.ctx:s", "s"]),
            (":.ctx:", {}, [":.ctx:only", ":.ctx:s"]),
            (":.ctx:o", {}, [":.ctx:only"]),
            (":.c", {}, [":.ctx:only", ":.ctx:s"]),
            (":.", {}, [":.ctx:only", ":.ctx:s", "s"]),
            (":.:", {}, ["s"]),
            (":", {}, []),
        ],
    )
    def test_subjects_under_a_prefix(
        self, mixed: SmallRegistry, prefix: str, how: dict[str, bool], expected: list[str]
    ) -> None:
        found = lists.subjects(mixed.view, prefix, **how)
        assert [each.qualified for each in found if each is not None] == expected

    def test_long_names_are_listed_in_full_and_in_order(self, small: SmallRegistry) -> None:
        names = sorted("x" * 100 + tail for tail in ("", "y" * 300, "z" * 300, "yz" * 100))
        for name in names:
            small.register(name)
        context = ":." + "c" * 400 + ":"
        small.register(context + "s")
        assert by_subject.subjects(small.view, "x" * 100) == names
        assert by_subject.subjects(small.view, "x" * 100 + "y" * 200) == ["x" * 100 + "y" * 300]
        assert by_subject.subjects(small.view, ":*:s") == [context + "s"]
        assert [each for each in versions.contexts(small.view) if each is not None] == [".", context[1:-1]]

    def test_schemas_under_a_prefix(self, mixed: SmallRegistry) -> None:
        def listed(prefix: str = "", **how: Any) -> list[tuple[str, int] | None]:
            return schemas(mixed.view, prefix, **how)

        assert listed() == [("s", 1), ("s", 3)]
        assert listed(deleted=True) == [("gone", 1), ("s", 1), ("s", 2), ("s", 3)]
        assert listed(latest_only=True, deleted=True) == [("gone", 1), ("s", 3)]
        assert listed(":*:", latest_only=True) == [(":.ctx:only", 1), (":.ctx:s", 1), ("s", 3)]

    def test_rules_are_sought_after_the_latest_was_chosen(self, mixed: SmallRegistry) -> None:
        rules = RuleSet(domain_rules=[Rule("r", type="CEL")])
        mixed.register("s", record("A"), rule_set=rules)
        mixed.register("s", record("B"), rule_set=RuleSet())

        def listed(**how: Any) -> list[tuple[str, int] | None]:
            return schemas(mixed.view, "", rule_type="CEL", **how)

        assert listed() == [("s", 4)]
        assert listed(latest_only=True) == []

    def test_aliases_bring_their_targets(self, mixed: SmallRegistry) -> None:
        mixed.config("alias1", alias="s")
        mixed.config("alias2", alias=":.ctx:only")
        walk = lists.Schemas("alias", with_aliases=True).walk(mixed.view)
        found = [(place(each.found), each.aliases) for each in walk if each is not None]
        assert found == [
            ((":.ctx:only", 1), ["alias2"]),
            (("s", 1), ["alias1"]),
            (("s", 3), ["alias1"]),
        ]

    def test_the_highest_version_with_some_properties(self, small: SmallRegistry) -> None:
        small.level("s", "NONE")
        small.register("s", STRING, metadata=properties(a="1", b="1"))
        small.register("s", INT, metadata=properties(a="1", b="2"))
        small.register("s", LONG, metadata=properties(a="2"))

        def find(*wanted: tuple[str, str]) -> Registered:
            return run_search(by_subject.version_with_metadata(small.view, S, wanted))

        assert find(("a", "1")).version == 2
        assert find(("a", "1"), ("b", "1")).version == 1
        assert find().version == 3
        assert refusal(lambda: find(("a", "3"))) == (40403, "Schema not found")
        none = Subject.parse("none")
        assert refusal(lambda: run_search(by_subject.version_with_metadata(small.view, none, [])))[0] == 40401

    def test_contexts_come_in_order_with_the_default_first(self, small: SmallRegistry) -> None:
        for context in (".b", ".a", ".B"):
            small.register(f":{context}:s")
        assert [each for each in versions.contexts(small.view) if each is not None] == [".", ".B", ".a", ".b"]
        assert [each for each in versions.contexts(small.view, ".a") if each is not None] == [".a"]
        assert [each for each in versions.contexts(small.view, "a") if each is not None] == []


def test_references_take_part_in_the_content(small: SmallRegistry) -> None:
    small.register("r", record("R"))
    small.register("r2", record("R"))
    uses = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'
    one = small.place("u", uses, references=[Reference("R", "r", 1)])
    assert small.place("v", uses, references=[Reference("R", "r2", 1)]) != one
