"""Changes of mode: records, the switch to imports, refusals; and contexts."""

from __future__ import annotations

import pytest

from registry.domain.commands import DeleteContext, DeleteMode, PutMode
from registry.domain.log_format.records import Entry
from registry.domain.queries import by_subject, versions
from registry.domain.queries.scope import Defaults
from tests.unit.small_registry import STRING, SmallRegistry, record, reference

USES = '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}'
FOUND = (42205, "Cannot import since found existing subjects")


def test_a_put_writes_the_mode_and_echoes_the_request(small: SmallRegistry) -> None:
    assert small.submit(PutMode("s", "READONLY", "ReadOnly")) == {"mode": "ReadOnly"}
    assert small.last == [
        Entry(b'{"keytype":"MODE","subject":"s","magic":0}', b'{"subject":"s","mode":"READONLY"}')
    ]
    small.mode(None, "READWRITE")
    assert small.last == [Entry(b'{"keytype":"MODE","magic":0}', b'{"mode":"READWRITE"}')]


def test_null_removes_the_mode(small: SmallRegistry) -> None:
    small.mode("s", "READONLY")
    assert small.mode("s", None) == {}
    assert small.last == [Entry(b'{"keytype":"MODE","subject":"s","magic":0}', None)]
    assert small.refusal(DeleteMode("s")) == (40401, "Subject 's' not found.")


def test_a_delete_answers_the_old_mode(small: SmallRegistry) -> None:
    small.mode("s", "READONLY")
    assert small.drop_mode("s") == {"mode": "READONLY"}
    assert small.drop_mode(None) == {"mode": "READWRITE"}
    assert small.last == [Entry(b'{"keytype":"MODE","magic":0}', None)]
    assert small.drop_mode("s", recursive=True) == {}


def test_a_recursive_delete_takes_the_modes_of_the_context(small: SmallRegistry) -> None:
    long = ":.ctx:" + "x" * 300
    for scope in (":.ctx:", ":.ctx:a", long, ":.other:a", "a"):
        small.mode(scope, "READONLY")
    assert small.drop_mode(":.ctx:", recursive=True) == {"mode": "READONLY"}
    assert {subject for _, subject, _, _ in small.last_keys} == {":.ctx:", ":.ctx:a", long}
    assert small.drop_mode("a") == {"mode": "READONLY"}


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        (PutMode("s\0", "ODD", "odd"), (42208, "The specified subject 's\0' is not a valid.")),
        (
            PutMode("s", "ODD", "odd"),
            (42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."),
        ),
        (PutMode("s", "FORWARD", "FORWARD"), (42204, "Forward mode only supported on global level")),
        (PutMode(None, "FORWARD", "FORWARD"), (42204, "Forward mode only supported on global level")),
        (PutMode(None, "FORWARD", "forward"), (42205, "Mode changes are not allowed")),
        (PutMode("s", "READONLY", "READONLY"), (42205, "Mode changes are not allowed")),
        (DeleteMode(None), (42205, "Mode changes are not allowed")),
        (DeleteMode("s"), (40401, "Subject 's' not found.")),
    ],
)
def test_refusals(command: PutMode | DeleteMode, refused: tuple[int, str]) -> None:
    assert SmallRegistry(Defaults(mode_mutability=False)).refusal(command) == refused


def test_read_only_does_not_hold_mode_changes(small: SmallRegistry) -> None:
    small.mode(None, "READONLY")
    assert small.mode(None, "READWRITE") == {"mode": "READWRITE"}


class TestSwitchToImport:
    @pytest.mark.parametrize(
        ("scope", "free"), [("a", "b"), (":.:", ":.ctx:"), (None, ":.ctx:"), (":.ctx:", ":.other:")]
    )
    def test_live_subjects_forbid_it(self, small: SmallRegistry, scope: str | None, free: str) -> None:
        small.register("a")
        small.register(":.ctx:a" if scope == ":.ctx:" else "a")
        assert small.refusal(PutMode(scope, "IMPORT", "IMPORT")) == FOUND
        assert small.mode(free, "IMPORT") == {"mode": "IMPORT"}

    def test_the_top_level_holds_every_context(self, small: SmallRegistry) -> None:
        small.register(":.ctx:a")
        assert small.refusal(PutMode(None, "IMPORT", "IMPORT")) == FOUND

    def test_force_leaves_everything(self, small: SmallRegistry) -> None:
        small.register("a")
        small.mode(None, "IMPORT", force=True)
        assert small.last_keys == [("MODE", None, None, True)]
        assert small.lookup("a")["version"] == 1

    def test_soft_deleted_versions_go_for_good(self, small: SmallRegistry) -> None:
        small.register("a")
        small.register(":.ctx:b")
        small.delete("a")
        small.delete(":.ctx:b")
        small.mode(None, "IMPORT")
        assert small.last_keys == [
            ("SCHEMA", ":.ctx:b", 1, False),
            ("SCHEMA", "a", 1, False),
            ("CLEAR_SUBJECT", None, None, True),
            ("MODE", None, None, True),
        ]
        assert by_subject.subjects(small.view, ":*:", deleted=True) == []

    def test_not_where_others_refer_to_them(self, small: SmallRegistry) -> None:
        small.register("r", record("R"))
        small.register("u", USES, references=[reference("r")])
        small.delete("u")
        small.delete("r")
        assert small.refusal(PutMode("r", "IMPORT", "IMPORT"))[0] == 42206
        assert small.mode(None, "IMPORT") == {"mode": "IMPORT"}

    def test_import_twice_changes_nothing_else(self, small: SmallRegistry) -> None:
        small.mode(None, "IMPORT")
        small.register("a", STRING, schema_id=3)
        small.mode(None, "IMPORT")
        assert small.last_keys == [("MODE", None, None, True)]

    def test_the_default_of_all_contexts_holds_no_subjects(self, small: SmallRegistry) -> None:
        small.register("a")
        small.mode(":.__GLOBAL:", "IMPORT")
        assert small.last_keys == [("MODE", ":.__GLOBAL:", None, True)]


class TestContexts:
    def test_one_with_subjects_stays_even_soft_deleted_ones(self, small: SmallRegistry) -> None:
        small.register(":.ctx:s")
        refused = (42211, "The specified context '.ctx' is not empty.")
        assert small.refusal(DeleteContext(".ctx")) == refused
        small.delete(":.ctx:s")
        assert small.refusal(DeleteContext(".ctx")) == refused

    def test_an_emptied_one_is_listed_until_it_is_deleted(self, small: SmallRegistry) -> None:
        small.register(":.ctx:s")
        small.purge(":.ctx:s")
        assert [each for each in versions.contexts(small.view) if each is not None] == [".", ".ctx"]
        assert small.submit(DeleteContext(".ctx")) is None
        key = b'{"keytype":"CONTEXT","tenant":"default","context":".ctx","magic":0}'
        assert small.last == [Entry(key, None)]
        assert [each for each in versions.contexts(small.view) if each is not None] == ["."]

    def test_an_unknown_one_needs_no_record(self, small: SmallRegistry) -> None:
        assert small.submit(DeleteContext(".none")) is None
        assert small.last == []
