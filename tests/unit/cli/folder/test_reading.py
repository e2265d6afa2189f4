"""Folders as trees of files: what names and manifest say, and that what is written is read again."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from registry.cli.folder.contents import MANIFEST, Contents, FolderError, Version
from registry.cli.folder.layout import file_names, subject_of
from registry.cli.folder.memory_registry import MemoryRegistry
from registry.cli.folder.plan import plan, plan_for
from registry.cli.folder.reading import manifest_of, read
from registry.cli.folder.writing import tree_of
from registry.domain.model import LATEST, Metadata, Reference, Rule, RuleSet
from tests.unit.small_registry import INT, LONG, STRING, record

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=120)


def tree(manifest: str = "", **files: str) -> dict[str, bytes]:
    found = {path: text.encode() for path, text in files.items()}
    return found | ({MANIFEST: manifest.encode()} if manifest else {})


def places(contents: Contents) -> dict[str, list[int]]:
    return {subject: [each.number for each in found] for subject, found in contents.versions.items()}


def test_files_are_named_after_subjects_and_folders_of_numbers_hold_versions() -> None:
    found = read(
        tree(
            **{
                "orders-value.avsc": INT,
                "team/money.proto": 'syntax = "proto3";',
                "items/10.json": "{}",
                "items/9.json": "{}",
                "%3A.ctx%3As.avsc": INT,
                "readme.md": "",
                "7.avsc": INT,
            }
        )
    )
    assert places(found) == {":.ctx:s": [0], "7": [0], "items": [9, 10], "orders-value": [0], "money": [0]}
    assert found.versions["money"][0].schema_type == "PROTOBUF"
    assert found.versions["items"][0].origin == "items/9.json"


def test_the_manifest_adds_what_files_do_not_say() -> None:
    manifest = """
    subjects = ["orders-*"]
    ignore = ["examples/*"]
    lint_errors = ["docs"]
    [contexts."."]
    compatibility = "FULL"
    [contexts.".eu"]
    mode = "READONLY"
    [subject.orders-value]
    compatibility = "NONE"
    file = "orders.txt"
    schemaType = "AVRO"
    references = [{ name = "M", subject = "money" }, { name = "N", subject = "n", version = 3 }]
    metadata = { properties = { owner = "team" } }
    [subject.old.versions.2]
    file = "legacy.avsc"
    id = 7
    deleted = true
    """
    files = {"orders.txt": INT, "legacy.avsc": INT, "old/1.avsc": LONG, "examples/x.json": "{}"}
    raw = tree(manifest, **files)
    found = read(raw)
    (order,) = found.versions["orders-value"]
    assert order.references == (Reference("M", "money", LATEST), Reference("N", "n", 3))
    assert order.metadata == Metadata(properties={"owner": "team"})
    assert [(each.number, each.schema_id, each.deleted) for each in found.versions["old"]] == [
        (1, -1, False),
        (2, 7, True),
    ]
    assert found.configs == {
        "": {"compatibilityLevel": "FULL"},
        "orders-value": {"compatibilityLevel": "NONE"},
    }
    assert found.modes == {":.eu:": "READONLY"}
    assert [each.text for each in manifest_of(raw).owned] == ["orders-*"]
    assert set(found.versions) == {"orders-value", "old"}


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"a.avsc": INT, "x/a.json": "{}"}, "a.avsc and x/a.json are both a"),
        ({"a.avsc": INT, "a/1.avsc": INT}, "are both a"),
        ({"a/1.avsc": INT, "a/1.json": "{}"}, "are both a"),
        ({"%FF.avsc": INT}, "cannot determine the subject"),
        ({MANIFEST: "["}, "not TOML"),
        ({MANIFEST: "subject = 3"}, "subject must be a table of tables"),
        ({MANIFEST: '[subject.a]\ncolor = "red"'}, "unknown key color"),
        ({MANIFEST: '[contexts."."]\nfile = "x"'}, "unknown key file"),
        ({MANIFEST: "[contexts.eu]"}, "must begin with a dot"),
        ({MANIFEST: '[subject.a]\nfile = "../secret.avsc"'}, "../secret.avsc does not exist in the folder"),
        ({MANIFEST: "[subject.a.versions.0]"}, "from 1 to 2147483647"),
        ({MANIFEST: "[subject.a.versions.2147483648]"}, "from 1 to 2147483647"),
        ({MANIFEST: f"[subject.a.versions.{'9' * 5000}]"}, "from 1 to 2147483647"),
        ({MANIFEST: "[subject.a.versions.1]\nid = 2147483648"}, "id must be a whole number up to"),
        ({MANIFEST: "[subject.a.versions.1]"}, "no file for version 1 of a"),
        ({MANIFEST: '[subject.a]\nreferences = [{ name = "x" }]'}, "references: "),
        ({MANIFEST: "[subject.a]\nmetadata = { tags = 3 }"}, "metadata: "),
        ({MANIFEST: '[subject.a]\nschemaType = "THRIFT"'}, "one of AVRO, JSON, PROTOBUF"),
        ({MANIFEST: 'lint_errors = ["beauty"]'}, "unknown rule beauty"),
        ({MANIFEST: 'subjects = ["a*b"]'}, "is only allowed at the end"),
        ({MANIFEST: '[subject.a]\nfile = "a.txt"', "a.txt": INT}, "cannot determine the type"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_with_the_place(files: dict[str, str], named: str) -> None:
    with pytest.raises(FolderError, match=named.replace("*", r"\*")):
        read(tree(**files))


def test_a_file_that_is_not_utf_8_is_named() -> None:
    with pytest.raises(FolderError, match=r"a.avsc is not UTF-8: .* at byte 1"):
        read({"a.avsc": b'"\xff"'})


def test_a_byte_order_mark_is_left_out() -> None:
    assert read({"a.avsc": b"\xef\xbb\xbf" + INT.encode()}).versions["a"][0].text == INT


@given(st.lists(NAMES, unique=True, max_size=12))
@example(["a", "A", "..", ".", "", "/", "../x", "con", "NUL.txt", "7", " ", "a.", "\u00fc" * 100, "%~", "%"])
def test_every_set_of_names_has_safe_files_that_are_distinguished(names: list[str]) -> None:
    files = file_names(names)
    assert len({each.casefold() for each in files.values()}) == len(names)
    for name, file in files.items():
        assert file.isascii()
        assert 0 < len(file) <= 220
        assert not file.startswith(".")
        assert not set(file) & set('/\\:*?"<>|\0')
        assert subject_of(file) in (name, None)


def everything() -> Contents:
    rules = RuleSet(domain_rules=[Rule(name="r", kind="CONDITION", type="CEL", mode="WRITE", expr='a\n"b"')])
    return Contents(
        {
            "money": (
                Version(INT, number=2, schema_id=4),
                Version(record("Money", "c"), number=5, schema_id=5),
            ),
            "order": (
                Version(
                    '{"type":"record","name":"Order","fields":[{"name":"p","type":"Money"}]}',
                    number=3,
                    schema_id=9,
                    references=(Reference("Money", "money", 5),),
                    metadata=Metadata(properties={"owner": "t\u00e4am"}),
                    rule_set=rules,
                ),
            ),
            "j": (Version('{"type":"number","maximum":1.0}', "JSON", 1, schema_id=10),),
            "Case": (Version(STRING, number=1, schema_id=11),),
            "case": (Version(LONG, number=1, schema_id=12),),
            "../..": (Version(LONG, number=1, schema_id=12),),
            ":.eu:x/y": (Version('syntax = "proto3";\n', "PROTOBUF", 1, schema_id=1),),
        },
        {"": {"compatibilityLevel": "NONE"}, "order": {"compatibilityLevel": "FULL", "normalize": True}},
        {":.eu:": "READONLY", "order": "READONLY"},
    )


@pytest.mark.parametrize("keep_ids", [False, True])
def test_what_is_written_is_read_again(keep_ids: bool) -> None:
    wanted = everything()
    again = read(tree_of(wanted, ["*"], keep_ids=keep_ids))
    assert (again.configs, again.modes) == (wanted.configs, wanted.modes)
    unlocked = Contents(again.versions, again.configs, {"order": "READONLY"})
    from_files, direct = MemoryRegistry(), MemoryRegistry()
    assert plan_for(unlocked, from_files, keep_ids=keep_ids).possible
    assert plan_for(
        Contents(wanted.versions, wanted.configs, unlocked.modes), direct, keep_ids=keep_ids
    ).possible
    assert from_files.rows() == direct.rows()
    assert tree_of(wanted, ["*"], keep_ids=keep_ids) == tree_of(wanted, ["*"], keep_ids=keep_ids)


def test_what_a_registry_holds_needs_no_step_once_it_was_written() -> None:
    wanted = everything()
    for keep_ids in (False, True):
        assert plan(read(tree_of(wanted, keep_ids=keep_ids)), wanted, keep_ids=keep_ids).steps == []


def test_a_single_schema_is_a_file_in_lines_that_is_named_after_its_subject() -> None:
    found = tree_of(Contents({"orders-value": (Version(record("R", "a"), number=4),)}))
    assert set(found) == {"orders-value.avsc", MANIFEST}
    assert found["orders-value.avsc"].count(b"\n") > 5
    assert found[MANIFEST] == b""
