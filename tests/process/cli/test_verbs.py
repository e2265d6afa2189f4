"""Verbs against a running registry: what they do, their exit statuses, and the shape of their JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from registry.cli.client.client import RegistryClient
from tests.process.as_confluent import as_confluent
from tests.process.cli.running_verbs import Done, verb, verb_process
from tests.support.running import ROOT, Registry, Served, free_port, until

SHAPES = ROOT / "docs" / "json"
OLD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
COMPATIBLE = {**OLD, "fields": [*OLD["fields"], {"name": "b", "type": "int", "default": 1}]}
INCOMPATIBLE = {**OLD, "fields": [*OLD["fields"], {"name": "c", "type": "int"}]}


class Client:
    """Verbs with the address of one registry; JSON is checked against the documented shape."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def __call__(self, *words: str) -> Done:
        return verb(*words, "--url", self.url)

    def json(self, *words: str, status: int = 0) -> object:
        done = self(*words, "--json")
        assert done.status == status, done.err
        shape = json.loads((SHAPES / f"{words[0]}.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(shape)
        jsonschema.validate(done.json, shape)
        return done.json

    def file(self, schema: object, name: str = "schema.avsc") -> str:
        path = self.folder / name
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return str(path)


@pytest.fixture
def client(registry: Served, tmp_path: Path) -> Client:
    return Client(registry.url, tmp_path)


@pytest.fixture
def subject(client: Client, request: pytest.FixtureRequest) -> str:
    """Return a subject with two versions."""
    name = f"verbs-{request.node.name}"
    for schema in (OLD, COMPATIBLE):
        assert client("register", name, client.file(schema)).status == 0
    return name


def test_a_schema_is_registered_once(client: Client) -> None:
    first = client.json("register", "verbs-once", client.file(OLD))
    again = client.json("register", "verbs-once", client.file(OLD))
    assert (first["version"], first["registered"], again["registered"]) == (1, True, False)
    assert {**first, "registered": False} == again
    assert "verbs-once is already version 1, id" in client("register", "verbs-once", client.file(OLD)).out


def test_a_schema_is_registered_from_standard_input(registry: Served) -> None:
    words = ("register", "verbs-stdin", "-", "--url", registry.url)
    assert verb_process(*words, "--type", "avro", stdin='"string"').status == 0
    untyped = verb_process(*words, stdin='"string"')
    assert (untyped.status, "the type of - is unknown: give --type" in untyped.err) == (2, True)


def test_references_metadata_and_types_are_registered(client: Client) -> None:
    other = client.file('syntax = "proto3"; message Other {}', "other.proto")
    user = client.file('syntax = "proto3"; import "other.proto"; message User { Other o = 1; }', "user.proto")
    assert client("register", "verbs-other", other).status == 0
    refers = ("--reference", "other.proto=verbs-other:1")
    assert client("register", "verbs-user", user, *refers, "--property", "owner=me").status == 0
    found = client.json("show", "verbs-user")
    assert found["references"] == [{"name": "other.proto", "subject": "verbs-other", "version": 1}]
    assert (found["schemaType"], found["metadata"]["properties"]) == ("PROTOBUF", {"owner": "me"})
    listed = client.file([{"name": "other.proto", "subject": "verbs-other", "version": 1}], "refers.json")
    assert client("register", "verbs-user2", user, "--references", listed).status == 0
    shown = client("show", "verbs-user").out
    assert "refers to other.proto: verbs-other:1" in shown
    assert "owner = me" in shown


def test_a_table_is_registered_as_a_schema_of_any_type(client: Client) -> None:
    other = client.file("ENUM Kind ('A')", "kind.sql")
    table = client.file("STRUCT T (k Kind NOT NULL)", "table.sql")
    refers = ("--reference", "kind=verbs-kind:1")
    for type_ in ("avro", "protobuf"):
        subject = f"verbs-table-{type_}"
        assert client("register", "verbs-kind", other, "--ddl", "--type", "avro").status == 0
        words = ("register", subject, table, "--ddl", "--type", type_)
        if type_ == "avro":
            assert client(*words).status == 1
            assert client(*words, *refers, "--dry-run").status == 0
            assert client.json(*words, *refers)["registered"] is True
            assert client.json(*words, *refers)["registered"] is False
        else:
            assert "Unknown named type reference: Kind" in client(*words).err
    assert client("register", "verbs-kind", other, "--ddl").status == 2


@pytest.mark.parametrize(
    ("schema", "name", "words", "status", "told"),
    [
        (INCOMPATIBLE, "x.avsc", (), 1, "incompatible"),
        ("{", "x.avsc", (), 1, "Invalid schema"),
        (OLD, "x.txt", (), 2, "is unknown: give --type"),
        (OLD, "x.avsc", ("--reference", "nonsense"), 2, "write NAME=SUBJECT:VERSION"),
        (OLD, "x.avsc", ("--property", "nonsense"), 2, "write --property NAME=VALUE"),
        (OLD, "x.avsc", ("--references", "/nowhere"), 2, "/nowhere cannot be read"),
        (OLD, "x.avsc", ("--reference", "a=verbs-none:1"), 1, "verbs-none"),
    ],
)
def test_a_refused_schema_is_reported(
    client: Client, subject: str, schema: object, name: str, words: tuple[str, ...], status: int, told: str
) -> None:
    done = client("register", subject, client.file(schema, name), *words)
    assert done.status == status
    assert told in done.out if status == 1 else told in done.err
    assert bool(done.out) is (status == 1)


CHANGES = {
    "x.avsc": (json.dumps(OLD), json.dumps(INCOMPATIBLE), "fix: give `c` a default"),
    "x.json": (
        '{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}',
        '{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}', "fix: ",
    ),
    "x.proto": (
        'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n',
        'syntax = "proto3";\nmessage M {\n  string a = 1;\n}\n', "fix: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_refused_registration_has_the_report_of_check(client: Client, name: str) -> None:
    old, new, fix = CHANGES[name]
    subject = f"verbs-refused-{name}"
    rehearsed = client.json("register", subject, client.file(old, name), "--dry-run")
    assert rehearsed["report"]["schemas"][0]["verdict"] == "new"
    assert client("versions", subject).status == 1
    assert client("register", subject, client.file(old, name)).status == 0
    assert client.json("register", subject, client.file(old, name), "--dry-run")["version"] == 1
    file = client.file(new, name)
    checked = client("check", file, "--subject", subject)
    for words in ((), ("--dry-run",)):
        refused = client("register", subject, file, *words)
        assert (refused.status, refused.out.replace(file, name)) == (1, checked.out)
        assert fix in refused.out
        found = client.json("register", subject, file, *words, status=1)
        assert (found["registered"], found["report"]["accepted"]) == (False, False)
    assert client("versions", subject).out == "1\n"


def test_a_rehearsal_follows_an_alias_as_a_registration_does(client: Client, subject: str) -> None:
    assert client("config", "set", f"{subject}-alias", "--alias", subject).status == 0
    file = client.file(INCOMPATIBLE)
    done = client("register", f"{subject}-alias", file, "--dry-run")
    assert (done.status, f"! {subject} ({file}): incompatible at BACKWARD" in done.out) == (1, True)


def test_a_schema_is_shown_by_subject_id_and_guid(client: Client, subject: str) -> None:
    latest = client.json("show", subject)
    assert (latest["version"], latest["subject"], json.loads(latest["schema"])) == (2, subject, COMPATIBLE)
    first = client.json("show", f"{subject}:1")
    assert json.loads(first["schema"]) == OLD
    for words in (("--id", str(first["id"])), ("--guid", first["guid"])):
        assert client.json("show", *words)["schema"] == first["schema"]
    assert client("show", f"{subject}:1", "--raw").out == first["schema"] + "\n"
    shown = client("show", f"{subject}:1").out
    assert f"subject {subject}, version 1, id {first['id']}" in shown
    assert '      "name": "a",' in shown
    assert client("show", f"{subject}:1", "--ddl").out.endswith("STRUCT R (a INT NOT NULL);\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("verbs-none",), 1), (("--id", "123456789"), 1), (("--guid", "x"), 1),
        ((), 2), (("a", "--id", "1"), 2), (("--ddl", "--id", "1"), 2), (("a", "--ddl", "--resolved"), 2),
    ],
)  # fmt: skip
def test_a_schema_that_there_is_not_is_reported(client: Client, words: tuple[str, ...], status: int) -> None:
    assert client("show", *words).status == status


def test_a_resolved_schema_holds_what_it_refers_to(client: Client) -> None:
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "r", "type": "R"}]}
    client("register", "verbs-inner", client.file(OLD))
    assert client("register", "verbs-outer", client.file(outer), "--reference", "R=verbs-inner:1").status == 0
    assert '"name":"a"' in client("show", "verbs-outer", "--raw", "--resolved").out
    assert '"name":"a"' not in client("show", "verbs-outer", "--raw").out


def test_subjects_and_versions_are_listed(client: Client, subject: str) -> None:
    assert subject in client.json("subjects")

    def is_found() -> bool:
        found: Any = client.json("search", *subject.split("-"), "--kind", "subject")
        return found["complete"] and [each["subject"] for each in found["hits"]] == [subject]

    until(is_found, 60, "the index to hold the subject")
    assert f"{subject}  2        field b" in client("search", subject, "b").out
    assert client.json("subjects", subject) == [subject]
    assert client("config", "set", subject, "--level", "FULL").status == 0
    filters = ("--level", "full", "--mode", "READWRITE", "--type", "AVRO", "--words", "b")
    assert client.json("subjects", subject, *filters) == [subject]
    assert client("subjects", subject, *filters, "--level", "NONE").out == ""
    assert client("subjects", "--unused", "--mode", "IMPORT").status == 2
    assert client("versions", subject).out == "1\n2\n"
    assert client("delete", f"{subject}:1", "--yes").status == 0
    assert client("versions", subject).out == "2\n"
    assert client.json("versions", subject, "--deleted") == [
        {"version": 1, "deleted": True}, {"version": 2, "deleted": False},
    ]  # fmt: skip
    assert client("delete", subject, "--yes").status == 0
    assert client.json("subjects", subject) == []
    assert client.json("subjects", subject, "--deleted") == [subject]
    assert client("versions", subject).status == 1
    assert client("versions", subject, "--deleted").out == "1 (soft-deleted)\n2 (soft-deleted)\n"


def test_a_list_of_broad_words_says_that_there_may_be_more(client: Client) -> None:
    subject = "verbs-broad"
    fields = [{"name": f"broad{at:04}", "type": "int"} for at in range(1_001)]
    file = client.file({"type": "record", "name": "Broad", "fields": fields}, "broad.avsc")
    assert client("register", subject, file).status == 0

    def is_listed() -> bool:
        return client.json("subjects", "--words", "broad0000") == [subject]

    until(is_listed, 60, "the index to hold the subject")
    assert client("subjects", "--words", "broad0000").err == ""
    listed = client("subjects", "--words", "broad")
    assert listed.out.splitlines() == [subject]
    assert "there may be more subjects with these words" in listed.err.lower()


def test_two_schemas_are_compared(client: Client, subject: str) -> None:
    found = client.json("diff", f"{subject}:1", f"{subject}:2", status=1)
    assert found["levels"]["BACKWARD"]["compatible"]
    assert found["fields"] == {"added": 1, "removed": 0, "changed": 0}
    assert any(line.startswith("+") and '"b"' in line for line in found["diff"])
    file = client.file(INCOMPATIBLE, "new.avsc")
    shown = client("diff", f"{subject}:1", file)
    assert shown.status == 1
    assert "BACKWARD             incompatible" in shown.out
    assert "FORWARD              compatible" in shown.out
    assert "fix: give `c` a default" in shown.out
    spelled = client.file(
        json.dumps({"name": "R", "fields": OLD["fields"], "type": "record"}, indent=7), "o.avsc"
    )
    assert client.json("diff", f"{subject}:1", spelled) == {
        "same": True, "diff": [], "levels": None, "changes": None, "fields": None,
    }  # fmt: skip
    assert client("diff", f"{subject}:1", f"{subject}:1").out == "the same\n"
    assert client("diff", f"{subject}:1", "verbs-none").status == 1


def test_versions_say_what_they_changed(client: Client, subject: str) -> None:
    found = client.json("versions", subject, "--changes")
    newest, first = found[0], found[1]
    assert (newest["version"], newest["previous"], newest["added"], newest["compatible"]) == (2, 1, 1, True)
    assert (first["version"], "previous" in first) == (1, False)
    shown = client("versions", subject, "--changes").out.splitlines()
    assert [each in shown[1] for each in ("+1", "compatible")] == [True, True]


def test_schemas_of_different_contexts_are_compared_with_what_they_refer_to(
    client: Client, subject: str
) -> None:
    other = {"type": "record", "name": "Outer", "fields": [{"name": "r", "type": "R"}]}
    far = f":.far-{subject}:"
    assert client("register", f"{far}{subject}", client.file(OLD, "old.avsc")).status == 0
    for name in (f"{subject}-user", f"{far}{subject}-user"):
        refers = ("--reference", f"R={subject}:1")
        assert client("register", name, client.file(other), *refers).status == 0
    found = client.json("diff", f"{far}{subject}-user:1", f"{subject}-user:1", status=1)
    assert found["levels"]["FULL"]["compatible"]
    assert found["fields"] == {"added": 0, "removed": 0, "changed": 0}


def test_types_are_not_compared(client: Client, subject: str) -> None:
    done = client("diff", subject, client.file({"type": "object"}, "new.json"))
    assert (done.status, "no compatibility between types" in done.err) == (1, True)


def test_a_deletion_shows_its_consequences_first(client: Client, subject: str) -> None:
    other = {"type": "record", "name": "Outer", "fields": [{"name": "r", "type": "R"}]}
    refers = ("--reference", f"R={subject}:1")
    assert client("register", f"{subject}-user", client.file(other), *refers).status == 0
    user = client.json("show", f"{subject}-user")
    planned = client.json("delete", subject, "--dry-run", status=1)
    assert [each["referencedBy"] for each in planned["versions"]] == [[user["id"]], []]
    assert "is referred to by the schemas with the ids" in planned["obstacles"][0]
    assert client.json("delete", subject, "--yes", status=1)["deleted"] is False
    assert client("versions", subject).out == "1\n2\n"
    assert client("delete", f"{subject}-user", "--yes").status == 0
    planned = client.json("delete", subject, "--dry-run")
    assert (planned["obstacles"], planned["deleted"]) == ([], False)
    assert [each["idStaysReadable"] for each in planned["versions"]] == [True, True]
    assert client("versions", subject).out == "1\n2\n"
    assert client.json("delete", subject, "--yes")["deleted"] is True
    again = client("delete", subject, "--yes")
    assert (again.status, "use --permanent to remove them" in again.err) == (1, True)
    assert client("delete", "verbs-none", "--yes").status == 1


def test_a_plan_for_a_subject_that_refers_to_itself_takes_two_requests_a_version(
    client: Client, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get = RegistryClient.get

    def counted(self: RegistryClient, path: str, /, *words: Any, **params: Any) -> Any:
        asked.append(path)
        return get(self, path, *words, **params)

    assert client("config", "set", subject, "--level", "NONE").status == 0
    for number in range(3):
        outer = {"type": "record", "name": f"Outer{number}", "fields": [{"name": "r", "type": "R"}]}
        refers = ("--reference", f"R={subject}:1")
        assert client("register", subject, client.file(outer), *refers).status == 0
    monkeypatch.setattr(RegistryClient, "get", counted)
    planned = client.json("delete", subject, "--dry-run")
    assert (planned["obstacles"], len(planned["versions"])) == ([], 5)
    of_versions = [path for path in asked if re.search(r"/versions/[0-9]", path)]
    assert len(of_versions) <= 2 * 5 + 1


def test_a_deletion_does_not_follow_an_alias(client: Client, subject: str) -> None:
    alias = f"{subject}-alias"
    assert client("config", "set", alias, "--alias", subject).status == 0
    done = client("delete", alias, "--yes")
    assert (done.status, f"is an alias of {subject}" in done.err) == (1, True)
    assert client("versions", subject).out == "1\n2\n"
    assert client("delete", f":.:{subject}", "--yes").status == 0


def test_a_permanent_deletion_is_soft_first_and_needs_yes_where_nobody_is_asked(
    client: Client, registry: Served
) -> None:
    unique = {"type": "record", "name": "OnlyHere", "fields": []}
    assert client("register", "verbs-for-good", client.file(unique)).status == 0
    unasked = verb_process("delete", "verbs-for-good", "--permanent", "--url", registry.url)
    assert (unasked.status, "needs --yes" in unasked.err) == (2, True)
    planned = client("delete", "verbs-for-good", "--permanent", "--dry-run")
    assert (planned.status, "is no longer readable" in planned.out) == (0, True)
    assert client("delete", "verbs-for-good", "--permanent", "--yes").status == 0
    assert client("subjects", "verbs-for-good", "--deleted").out == ""
    assert client("undelete", "verbs-for-good").status == 1


def test_a_permanent_deletion_that_the_guard_refuses_says_what_was_done(tmp_path: Path) -> None:
    guarded = Registry(tmp_path / "data", "--readers", "1", "--deletion-guard", "refuse").wait()
    try:
        client = Client(guarded.url, tmp_path)
        for name in ("whole", "one"):
            assert client("register", name, client.file(OLD)).status == 0
        assert "messages need" not in client("delete", "whole", "--permanent", "--dry-run").err
        census = {"id": "c1", "location": "", "sha256": "", "started": 1, "ended": 2, "complete": True}
        usage = {"census": "c1", "state": "read", "uses": [["value", "id", 1, 3, 60, 5, 6, True]]}
        assert httpx.put(f"{guarded.url}/usage/sources/t", json=usage).status_code == 204
        assert httpx.put(f"{guarded.url}/usage/census", json=census).status_code == 204
        for name in ("whole", "one:1"):
            planned = client("delete", name, "--permanent", "--dry-run")
            assert (planned.status, "messages need version 1: where" in planned.err) == (0, True)
            done = client("delete", name, "--permanent", "--yes")
            assert (done.status, "version 1 is in use: messages: 3" in done.err) == (1, True)
            assert f"{name} is only soft-deleted; to restore it: registrar undelete {name}\n" in done.err
            assert client("undelete", name).status == 0
        forced = client("delete", "whole", "--permanent", "--force", "--yes")
        assert (forced.status, "messages need" in forced.err) == (0, False)
    finally:
        guarded.stop()


@pytest.mark.parametrize(("said", "status"), [(b"y\n", 0), (b"n\n", 1)])
def test_a_deletion_is_asked_for_on_a_terminal(
    client: Client, subject: str, said: bytes, status: int
) -> None:
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        words = ["registrar", "delete", f"{subject}:1", "--url", client.url]
        os.execv(sys.executable, [sys.executable, "-m", "registry", *words[1:]])
    shown = b""
    while not shown.endswith(b"Delete? [y/N]: "):
        shown += os.read(terminal, 1000)
    os.write(terminal, said)
    _, ended = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(ended) == status
    assert client("versions", subject).out == ("2\n" if status == 0 else "1\n2\n")


def test_a_deleted_version_comes_back_as_it_was(client: Client, subject: str) -> None:
    before = [client.json("show", f"{subject}:{number}") for number in (1, 2)]
    assert client("mode", "get", subject, "--own").status == 1
    assert client("delete", f"{subject}:1", "--yes").status == 0
    found = client.json("undelete", f"{subject}:1")
    assert found["versions"] == [{"version": 1, "id": before[0]["id"], "formerVersion": 1}]
    assert client("delete", subject, "--yes").status == 0
    assert f"{subject}: version 2 is back" in client("undelete", subject).out
    assert [client.json("show", f"{subject}:{number}") for number in (1, 2)] == before
    assert client("mode", "get", subject, "--own").status == 1
    nothing = client("undelete", subject)
    assert (nothing.status, "has no soft-deleted version" in nothing.err) == (1, True)


def test_a_deleted_version_comes_back_as_a_new_one(client: Client, subject: str) -> None:
    assert client("mode", "set", "READWRITE", subject).status == 0
    before = client.json("show", f"{subject}:2")
    assert client("delete", f"{subject}:2", "--yes").status == 0
    found = client.json("undelete", f"{subject}:2", "--as-new")
    assert found["versions"] == [{"version": 3, "id": before["id"], "formerVersion": 2}]
    assert client("mode", "get", subject, "--own").out == "READWRITE\n"


def test_the_config_is_read_changed_and_removed(client: Client, subject: str) -> None:
    assert client.json("config", "get", subject) == client.json("config", "get")
    assert client("config", "get", subject, "--own").status == 1
    changed = client.json("config", "set", subject, "--level", "full", "--normalize", "true")
    assert (changed["compatibilityLevel"], changed["normalize"]) == ("FULL", True)
    body = client.file({"compatibilityGroup": "major"}, "config.json")
    assert client.json("config", "set", subject, "--from", body)["compatibilityGroup"] == "major"
    shown = client("config", "get", subject, "--own").out
    assert "compatibilityLevel: FULL\n" in shown
    assert "normalize: true\n" in shown
    assert client.json("config", "delete", subject)["compatibilityLevel"] == "BACKWARD"
    assert client("config", "set", subject).status == 2
    assert client("config", "set", subject, "--level", "SIDEWARD").status == 2
    wrong = client.file({"compatibility": "SIDEWARD"}, "wrong.json")
    assert client("config", "set", subject, "--from", wrong).status == 1


def test_the_mode_is_read_changed_and_removed(client: Client, subject: str) -> None:
    assert client.json("mode", "get", subject) == {"mode": "READWRITE"}
    assert client.json("mode", "set", "readonly", subject) == {"mode": "READONLY"}
    refused = client("delete", subject, "--yes")
    assert (refused.status, "is READONLY, in which nothing is deleted" in refused.err) == (1, True)
    assert client("register", subject, client.file('"int"')).status == 1
    assert client.json("mode", "delete", subject) == {"mode": "READWRITE"}
    assert client("mode", "set", "IMPORT", subject).status == 1
    assert client("mode", "set", "IMPORT", subject, "--force").out == "IMPORT\n"


def test_verbs_look_back(client: Client, subject: str) -> None:
    assert client("config", "set", subject, "--level", "FULL").status == 0
    assert client("mode", "set", "READONLY", subject).status == 0
    last = client.json("history", subject)["events"][0]
    assert client("mode", "set", "READWRITE", subject).status == 0
    assert client("config", "set", subject, "--level", "NONE").status == 0
    assert client("delete", f"{subject}:2", "--yes").status == 0
    assert client.json("config", "get", subject)["compatibilityLevel"] == "NONE"
    offset, time = str(last["offset"]), str(last["time"])
    for at in (("--at-offset", offset), ("--at-time", time)):
        assert client("versions", subject, *at).out == "1\n2\n"
        assert client.json("show", subject, *at)["version"] == 2
        for own in ((), ("--own",)):
            assert client.json("config", "get", subject, *own, *at)["compatibilityLevel"] == "FULL"
            assert client.json("mode", "get", subject, *own, *at) == {"mode": "READONLY"}
    assert client("versions", subject, "--at-time", "1").status == 1
    for words in (("--at-time", "soon"), ("--at-time", ""), ("--at-offset", offset, "--at-time", time)):
        assert client("versions", subject, *words).status == 2


def test_the_present_is_not_shown_as_the_past(client: Client, subject: str) -> None:
    with as_confluent(client.url) as other:
        for line in (f"versions {subject}", "versions none", f"show {subject}", "config get", "mode get"):
            for at in (("--at-offset", "0"), ("--at-time", "2026-01-31T12:00:00Z")):
                done = verb(*line.split(), *at, "--url", other.url)
                assert (done.status, done.out) == (2, "")
                assert "does not support reads of the past" in done.err


def test_a_subject_named_like_a_folder_is_not_everything(client: Client) -> None:
    level = client.json("config", "get")
    for name in (".", ".."):
        assert client.json("config", "set", name, "--level", "NONE") == {"compatibilityLevel": "NONE"}
        assert client.json("config", "get") == level
        assert client.json("config", "delete", name) == level
        assert client("register", name, client.file('"int"')).status == 0
        assert client("delete", name, "--permanent", "--yes").status == 0


def test_an_empty_variable_is_not_everything(client: Client) -> None:
    for words in (("config", "delete", ""), ("mode", "set", "READONLY", "")):
        done = client(*words)
        assert (done.status, "leave it out to mean everything" in done.err) == (2, True)
    assert client("mode", "get").out == "READWRITE\n"


@pytest.mark.parametrize("kind", ["config", "mode"])
def test_nobody_removes_what_holds_for_everything_by_mistake(client: Client, kind: str) -> None:
    refused = client(kind, "delete")
    assert (refused.status, refused.out) == (2, "")
    assert "this concerns the whole registry" in refused.err
    assert client(kind, "delete", "--yes").status == 0


def test_an_id_is_shown_by_its_context(client: Client) -> None:
    for context, text in (("a", '"int"'), ("b", '"long"')):
        assert client("register", f":.show-{context}:x", client.file(text)).status == 0
    shown = [client.json("show", "--id", "1", "--context", each) for each in (".show-a", "show-b")]
    assert [each["schema"] for each in shown] == ['"int"', '"long"']
    assert client("show", "--id", "1", "--context", "show-none", "--raw").status == 1
    assert client("show", "x", "--context", "show-a").status == 2


def test_a_name_of_a_file_and_of_a_subject_is_not_guessed(client: Client) -> None:
    path = client.file(OLD, "verbs-both.avsc")
    assert client("register", "verbs-both.avsc", client.file('"int"')).status == 0
    assert client("register", "verbs-only", client.file('"int"')).status == 0
    (client.folder / "verbs-only").write_text("no schema")

    def diff(old: str, new: str) -> Done:
        return verb_process("diff", old, new, "--url", client.url, folder=client.folder)

    unclear = diff("verbs-both.avsc", "verbs-only")
    assert (unclear.status, unclear.out) == (2, "")
    assert "verbs-both.avsc is a file, and also a subject: write ./verbs-both.avsc" in unclear.err
    assert diff(":.:verbs-both.avsc", "verbs-only").out == "the same\n"
    assert diff("./verbs-both.avsc", path).out == "the same\n"


def test_the_status_of_nodes_is_reported(client: Client) -> None:
    found = client.json("status")
    (node,) = found["nodes"]
    assert (node["ready"], node["role"], found["problems"]) == (True, "primary", [])
    shown = client("status")
    assert (shown.status, node["digest"][:8] in shown.out) == (0, True)
    dead = f"http://127.0.0.1:{free_port()}"
    half = verb("status", "--url", f"{client.url},{dead}")
    assert half.status == 1
    assert "nothing listens" in half.err
    assert verb("status", "--url", dead).status == 2


def terminal_output(*words: str, **environment: str) -> bytes:
    """Return what a verb prints on a terminal."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "registry", *words], os.environ | environment)
    shown = b"".join(_read(terminal))
    os.waitpid(child, 0)
    os.close(terminal)
    return shown


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(terminal, 10_000)
        except OSError:  # the terminal's other end is closed
            return
        if not part:
            return
        yield part


def test_colors_are_only_for_terminals_and_obey_no_color(client: Client, subject: str) -> None:
    words = ("diff", f"{subject}:1", client.file(INCOMPATIBLE), "--url", client.url)
    shown = terminal_output(*words, TERM="xterm-256color", NO_COLOR="")
    assert b"\x1b[32m" in shown
    assert b"\x1b[1;31m" in shown, "bold, which rich alone would keep without colors"
    assert b"\x1b[" not in terminal_output(*words, TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b" not in verb(*words).out


def test_verbs_that_write_change_nothing_unless_what_is_there_is_what_was_seen(
    client: Client, subject: str
) -> None:
    def tag(*words: str) -> str:
        return client(*words, "--etag").out.strip()

    third = client.file(COMPATIBLE | {"doc": "third"}, "third.avsc")
    writes = {
        ("show", subject): [("register", subject, third), ("delete", subject)],
        ("config", "get", subject): [
            ("config", "set", subject, "--level", "NONE"), ("config", "delete", subject),
        ],
        ("mode", "get", subject): [("mode", "set", "READWRITE", subject), ("mode", "delete", subject)],
    }  # fmt: skip
    for read, changes in writes.items():
        assert tag(*read) == ("none" if read[0] != "show" else tag("show", f"{subject}:2"))
        for words in changes:
            refused = client(*words, "--if-match", "1-0")
            assert (refused.status, "If-Match" in refused.err) == (1, True), refused
            assert client(*words, "--if-match", tag(*read)).status == 0
    assert tag("show", subject) == "none"
    assert client("register", subject, third, "--if-match", "none").status == 0
    again = client("register", subject, third, "--if-match", tag("show", subject), "--json")
    assert again.json["registered"] is False
    assert client("register", subject, third, "--if-match", "none").status == 1


def test_unused_versions_are_listed_and_deleted_as_planned(client: Client, subject: str) -> None:
    later = time.time_ns() // 1_000_000 + 60_000
    census = {"id": "c1", "location": "", "sha256": "", "started": later, "ended": later, "complete": True}
    with httpx.Client(base_url=client.url) as http:
        ids = [http.get(f"/subjects/{subject}/versions/{each}").json()["id"] for each in (1, 2)]
        uses = [["value", "id", ids[0], 3, 60, 5, later, True]]
        usage = {"census": "c1", "state": "read", "messages": 3, "uses": uses}
        assert http.put(f"/usage/sources/{subject}", json=usage).status_code == 204
        assert http.put("/usage/census", json=census).status_code == 204
        listed: Any = client.json("subjects", subject, "--usage")
        assert [(each["used"], each["messages"], len(each["unused"])) for each in listed] == [(1, 3, 1)]
        assert subject in client("subjects", subject, "--unused").out
        assert client("unused", subject, "--json").json["versions"] == []
        kept: Any = client.json("unused", subject, "--older-than", "0d", "--delete", "--yes")
        assert [(each["version"], each["action"]) for each in kept["versions"]] == [(2, "keep")]
        other = {**OLD, "name": "S", "fields": [*OLD["fields"], {"name": "z", "type": "int", "default": 1}]}
        checked = client("check", client.file(other), "--subject", subject, "--used", "--level", "FULL")
        assert f"{subject}: compared with version 1, 2, in use or the latest" in checked.err
        topic = subject.replace("_", "-") + "-value"
        for schema in (INCOMPATIBLE, OLD, COMPATIBLE):
            http.put(f"/config/{topic}", json={"compatibility": "NONE"})
            assert client("register", topic, client.file(schema)).status == 0
        # Cannot read version 1, which no message uses; version 2 has an id in use.
        new = {**OLD, "fields": [*OLD["fields"], {"name": "c", "type": "string", "default": ""}]}
        checked = client("check", client.file(new), "--topic", topic.removesuffix("-value"))
        assert (checked.status, "compared with version 2, 3, in use or" in checked.err) == (0, True)
        words = ("check", client.file(new), "--subject", topic)
        assert client(*words, "--level", "BACKWARD_TRANSITIVE").status == 1
        set_level = client("config", "set", topic, "--level", "BACKWARD_USED", "--json")
        assert set_level.json["compatibilityUsed"]
        checked = client(*words)
        compared = "Compared with the versions in use or the latest: 3, 2; the census c1 found"
        assert (checked.status, compared in checked.out) == (0, True)
        (client.folder / "apply").mkdir()
        client.file(new, f"apply/{topic}.avsc")
        applied = client("apply", str(client.folder / "apply"), "--dry-run")
        assert (applied.status, f"+ {topic} version 4" in applied.out) == (0, True)
        assert compared in applied.out
        with_askers: Any = client.json("subjects", topic, "--askers")
        assert [each["subject"] for each in with_askers if each["askerCount"] is not None] == [topic]
        assert "last asked" in client("subjects", topic, "--askers").out
        words = ("show", f"{topic}:1", "--askers")
        assert re.search("^(nobody has asked for it since|asked for ).*20", client(*words).out, re.MULTILINE)
        shown: Any = client.json(*words)
        assert shown["askers"]
        assert client(*words, "--raw").status == 2
        http.put(f"/usage/sources/{subject}", json={**usage, "uses": []})
        planned = client("unused", subject, "--older-than", "0d", "--delete")
        assert (planned.status, planned.out.count(" unused, registered ")) == (0, 2)
        assert client("versions", subject).out.split() == ["1", "2"]
        assert client("unused", subject, "--older-than", "0d", "--delete", "--yes").status == 0
        assert client("versions", subject, "--deleted").out.count("soft-deleted") == 2
        gone: Any = client.json("unused", subject, "--delete", "--permanent-after", "0h", "--yes")
        assert {each["action"] for each in gone["versions"]} == {"delete permanently"}
        assert http.get(f"/subjects/{subject}/versions?deleted=true").status_code == 404
        http.put("/usage/census", json={**census, "complete": False, "unread": 1})
        assert "is not complete" in client("unused").err
    assert client("unused", "--yes").status == client("unused", "--older-than", "soon").status == 2
