"""Verbs on folders of schemas, on real registries and real git repositories."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from registry.cli.client.addresses import Address
from registry.cli.client.client import RegistryClient
from registry.cli.client.connect import Connection
from registry.cli.client.transport import TlsFiles
from registry.cli.folder.contents import MANIFEST, Contents, Version
from registry.cli.folder.plan import plan
from registry.cli.folder.steps import Plan, Step
from registry.cli.promotion.performing import PlanOutdated, perform
from registry.cli.promotion.reading import RegistryReader
from registry.cli.verbs.plans import present_for
from registry.domain.commands import Register
from registry.domain.subject_patterns import parse_pattern
from tests.process.cli.folder.places import Place, running
from tests.process.cli.running_verbs import Done, verb
from tests.support.running import free_port

INT, LONG, STRING = '"int"', '"long"', '"string"'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'
POLICIES = """
[[policy]]
subjects = ["strict-*"]
lint_errors = ["namespace"]
"""


def record(name: str, *fields: str) -> str:
    listed = [{"name": each, "type": "int"} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": listed})


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("one")
    (folder / "policies.toml").write_text(POLICIES)
    with running(folder / "data", "--policies", str(folder / "policies.toml")) as place:
        yield place


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / (MANIFEST if name == "manifest" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *settings, *words], check=True, capture_output=True)


def orders(prefix: str) -> dict[str, str]:
    """Return a folder in which a schema refers to another one that sorts behind it."""
    return {
        f"{prefix}-a-order.avsc": ORDER,
        f"{prefix}-money.avsc": record("Money", "cents"),
        "manifest": f"""
subjects = ["{prefix}-*"]
[subject.{prefix}-a-order]
references = [{{ name = "Money", subject = "{prefix}-money" }}]
[subject.{prefix}-money]
compatibility = "FULL"
""",
    }


# check


def test_check_asks_the_registry_and_registers_nothing(one: Place, tmp_path: Path) -> None:
    one.register("c1", record("R", "a"))
    before = one.versions()
    folder = write(tmp_path, **{"c1.avsc": record("R"), "new.avsc": ORDER.replace("Money", "int")})
    assert verb("check", str(folder), "--url", one.url) == Done(0, "+ c1 (c1.avsc): compatible\n"
        "+ new (new.avsc): new\n2 schemas accepted\n", "")  # fmt: skip
    write(tmp_path, **{"c1.avsc": record("R", "a", "b")})
    done = verb("check", str(folder), "--against", one.url, "--json")
    assert done.status == 1
    assert [each["verdict"] for each in done.json["schemas"]] == ["incompatible", "new"]
    assert one.versions() == before


def test_check_follows_the_level_of_the_registry_and_references_into_it(one: Place, tmp_path: Path) -> None:
    one.register("c2-money", record("Money", "cents"))
    one.register("c2", record("R", "a"))
    one.ask("PUT", "/config/c2", {"compatibility": "FORWARD"})
    reference = '[subject.c2-order]\nreferences = [{ name = "Money", subject = "c2-money" }]'
    folder = write(
        tmp_path, **{"c2.avsc": record("R", "a", "b"), "c2-order.avsc": ORDER, "manifest": reference}
    )
    assert verb("check", str(folder), "--url", one.url).status == 0
    assert verb("check", str(folder), "--url", one.url, "--level", "FULL").status == 1
    assert verb("check", str(folder), "--offline").status == 1


def test_check_without_an_answer_gives_no_verdict(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"a.avsc": INT})
    done = verb("check", str(folder), "--url", f"http://127.0.0.1:{free_port()}")
    assert (done.status, done.out) == (2, "")
    assert "nothing listens" in done.err


def test_check_compares_a_work_tree_with_git_revisions(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    folder = write(tmp_path / "schemas", **{"r.avsc": record("R", "a")})
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    assert verb("check", str(folder), "--against", "git:HEAD").status == 0
    write(folder, **{"r.avsc": record("R", "a", "b")})
    done = verb("check", str(folder), "--against", "git:HEAD", "--format", "github")
    assert done.status == 1
    place = f"{folder}/r.avsc"
    assert done.out.startswith(f"::error file={place},title=r is refused::incompatible at BACKWARD%0A")
    assert "give `b` a default" in done.out
    assert verb("check", str(folder), "--against", "git:HEAD", "--level", "FORWARD").status == 0
    one = verb("check", str(folder / "r.avsc"), "--against", "git:HEAD", "--format", "github")
    assert (one.status, one.out) == (1, done.out)
    linted = verb("lint", str(folder), "--warn", "docs", "--format", "github").out.splitlines()
    assert {line.partition(",")[0] for line in linted} == {f"::warning file={place}"}
    write(folder, **{"r.avsc": record("R", "a", "b").replace('"name": "b"', '"name": "b", "default": 0')})
    git(tmp_path, "commit", "-qam", "second")
    write(folder, **{"r.avsc": record("R", "a", "b")})
    assert verb("check", str(folder), "--against", "git:HEAD", "--level", "BACKWARD").status == 0
    several = ("--against", "git:HEAD~1", "--against", "git:HEAD", "--level", "BACKWARD_TRANSITIVE")
    assert verb("check", str(folder), *several).status == 1
    done = verb("check", str(folder), "--against", "git:HEAD~7")
    assert (done.status, done.out) == (2, "")
    assert "HEAD~7 is not a revision" in done.err


def test_check_compares_files_with_files(tmp_path: Path) -> None:
    proto = 'syntax = "proto3";\nmessage M {\n  %s a = 1;\n}\n'
    write(
        tmp_path,
        **{"old.proto": proto % "int32", "new.proto": proto % "string", "x.txt": "", "bad.avsc": "{"},
    )
    new, old = str(tmp_path / "new.proto"), str(tmp_path / "old.proto")
    done = verb("check", new, "--against", old)
    assert done.status == 1
    assert "! new (new.proto): incompatible at BACKWARD" in done.out
    assert "fix: " in done.out
    assert verb("check", old, "--against", old).status == 0
    assert verb("check", str(tmp_path / "bad.avsc"), "--offline").status == 1
    for wrong in (str(tmp_path / "x.txt"), str(tmp_path / "gone.avsc")):
        assert verb("check", wrong, "--offline").status == 2
    assert verb("check", new, "--against", str(tmp_path / "gone")).status == 2
    assert verb("check", new, "--against", old, "--against", "http://127.0.0.1:1").status == 2
    assert verb("check", str(tmp_path), "--offline", "--against", old).status == 2


def test_a_part_of_a_folder_is_checked_with_what_it_needs_from_the_rest(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    files = {
        "manifest": "", "base/money.avsc": record("Money", "cents"), "sales/order.avsc": ORDER,
        "sales/other.avsc": INT, "bad/bad.avsc": "{", "bad/user.avsc": ORDER.replace("Order", "User"),
    }  # fmt: skip
    folder = write(tmp_path / "schemas", **files)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    for path, subjects in (("sales", ["order", "other"]), ("sales/order.avsc", ["order"])):
        for words in (("--offline",), ("--against", "git:HEAD")):
            done = verb("check", str(folder / path), *words, "--json")
            assert (done.status, sorted(each["subject"] for each in done.json["schemas"])) == (0, subjects)
        linted = verb("lint", str(folder / path), "--json")
        assert sorted(each["subject"] for each in linted.json["schemas"]) == subjects
    write(folder, **{"base/money.avsc": record("Money", "cents", "more")})
    done = verb("check", str(folder / "sales/order.avsc"), "--against", "git:HEAD", "--format", "github")
    assert (done.status, done.out.count("::error")) == (1, 1)
    assert f"file={folder}/base/money.avsc,title=money is refused" in done.out
    assert done.out.endswith("because of this, 1 more schema is refused\n")
    write(folder, **{"base/money.avsc": record("Money", "cents")})
    renamed = verb("check", str(folder / "sales/order.avsc"), "--offline", "--subject", "x", "--json")
    assert [each["subject"] for each in renamed.json["schemas"]] == ["x"]
    (folder / MANIFEST).unlink()
    (folder / "sales/money.avsc").write_text(record("Money"))
    beside = verb("check", str(folder / "sales/order.avsc"), "--offline", "--json")
    assert (beside.status, [each["subject"] for each in beside.json["schemas"]]) == (0, ["order"])


def test_a_cycle_of_references_gives_no_verdict(tmp_path: Path) -> None:
    manifest = """
    [subject.a]
    references = [{ name = "B", subject = "b" }]
    [subject.b]
    references = [{ name = "A", subject = "a" }]
    """
    folder = write(tmp_path, **{"a.avsc": INT, "b.avsc": INT, "manifest": manifest})
    done = verb("check", str(folder), "--offline")
    assert done.status == 2
    assert "the references form a cycle" in done.err


def test_check_refuses_the_deletion_of_a_referenced_file_as_apply_does(one: Place, tmp_path: Path) -> None:
    """The schema that refers to it lies in no folder; only the registry knows it."""
    git(tmp_path, "init", "-q")
    manifest = 'subjects = ["x1-*"]\n'
    files = {"x1-money.avsc": record("Money"), "x1-free.avsc": INT, "x1-stays.avsc": INT}
    folder = write(tmp_path / "s", manifest=manifest, **files)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    assert verb("apply", str(folder), "--url", one.url).status == 0
    (folder / "x1-free.avsc").unlink()
    done = verb("check", str(folder), "--url", one.url, "--json")
    assert (done.status, done.json["deletions"]) == (0, ["x1-free"])
    assert "- x1-free, all versions\n" in verb("check", str(folder), "--url", one.url).out
    one.register("elsewhere", ORDER, references=[{"name": "Money", "subject": "x1-money", "version": 1}])
    (folder / "x1-money.avsc").unlink()
    told = "would be deleted, but is referred to by elsewhere version 1: keep it, or delete those first"
    for words in (("check",), ("apply", "--prune", "--yes")):
        done = verb(*words, str(folder), "--url", one.url)
        assert done.status == 1
        assert f"! x1-money: {told}" in done.out
    assert all(not each[3] for each in one.versions("x1-")), "nothing is deleted before the refusal"
    assert verb("check", str(folder), "--url", one.url, "--no-prune").status == 0
    assert verb("check", str(folder / "x1-stays.avsc"), "--url", one.url).status == 0


def test_check_knows_what_a_branch_deletes_without_a_registry(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    files = {"o.avsc": ORDER, "m.avsc": record("Money"), "manifest": 'subjects = ["*"]'}
    folder = write(tmp_path / "s", **files)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    words = ("check", str(folder), "--against", "git:HEAD", "--json")
    (folder / "m.avsc").unlink()
    assert verb(*words).status == 1, "it is used"
    # The version of the last commit still refers to it.
    write(folder, **{"o.avsc": ORDER.replace('"Money"', '"int"')})
    done = verb(*words, "--level", "NONE")
    assert (done.status, [each["subject"] for each in done.json["problems"]]) == (1, ["m"])
    (folder / "o.avsc").unlink()
    write(folder, **{"n.avsc": INT})
    done = verb(*words)
    assert (done.status, sorted(done.json["deletions"])) == (0, ["m", "o"])


# lint


def test_lint_reports_errors_warnings_and_what_it_cannot_read(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"a.avsc": record("lower", "a")})
    done = verb("lint", str(folder))
    assert done.status == 0
    assert "warning: pascal_case_types" in done.out
    assert verb("lint", str(folder), "--rules", "pascal_case_types").status == 1
    assert verb("lint", str(folder), "--rules", "beauty").status == 2
    write(folder, manifest='lint_errors = ["docs"]')
    found = verb("lint", str(folder), "--json")
    assert found.status == 1
    assert {each["rule"] for each in found.json["schemas"][0]["findings"]} == {"docs"}
    (tmp_path / "policies.toml").write_text(POLICIES)
    assert verb("lint", str(folder), "--policies", str(tmp_path / "policies.toml")).status == 0
    (folder / "a.avsc").write_bytes(b'"\xff"')
    done = verb("lint", str(folder))
    assert done.status == 2
    assert "a.avsc is not UTF-8" in done.err


# apply


def test_apply_does_what_its_plan_says_and_nothing_twice(one: Place, tmp_path: Path) -> None:
    folder = str(write(tmp_path, **orders("a1")))
    lines = (
        "+ config of a1-money: compatibility = FULL\n"
        "+ a1-money version 1  (a1-money.avsc)\n"
        "+ a1-a-order version 1  (a1-a-order.avsc)\n"
    )
    assert verb("apply", folder, "--url", one.url, "--dry-run") == Done(0, lines + "3 steps to take\n", "")
    assert one.places("a1-") == []
    assert verb("apply", folder, "--url", one.url) == Done(0, lines + "3 steps taken\n", "")
    assert one.places("a1-") == [("a1-a-order", 1), ("a1-money", 1)]
    again = verb("apply", folder, "--url", one.url, "--json")
    assert (again.status, again.json["steps"]) == (0, [])


def test_a_dry_run_ends_with_another_status_if_there_is_something_to_do(one: Place, tmp_path: Path) -> None:
    words = ("apply", str(write(tmp_path, **orders("drift"))), "--url", one.url, "--dry-run", "--exit-code")
    drift = verb(*words, "--json")
    assert (drift.status, len(drift.json["steps"])) == (3, 3)
    assert verb(*words).status == 3
    assert verb(*words[:-2]).status == 0
    assert verb(*words).status == 0
    assert verb(*words[:-2], "--exit-code").status == 2
    write(tmp_path, **{"drift-money.avsc": record("Other")})
    assert verb(*words).status == 1


def test_apply_writes_nothing_if_a_part_would_be_refused(one: Place, tmp_path: Path) -> None:
    one.register("a2-money", record("Other"))
    before = one.versions()
    done = verb("apply", str(write(tmp_path, **orders("a2"))), "--url", one.url)
    assert done.status == 1
    assert "! a2-money (a2-money.avsc): incompatible at FULL" in done.out
    assert "because of this, 1 more schema is refused" in done.out
    assert "nothing was changed" in done.err
    assert one.versions() == before


def test_apply_prunes_what_the_folder_owns_once_that_is_confirmed(one: Place, tmp_path: Path) -> None:
    for subject in ("a3-gone", "a3-also", "a30"):
        one.register(subject, INT)
    folder = str(write(tmp_path, **orders("a3")))
    assert verb("apply", folder, "--url", one.url).status == 0
    assert len(one.places("a3-")) == 4
    refused = verb("apply", folder, "--prune", "--url", one.url)
    assert refused.status == 2
    assert "--yes" in refused.err
    planned = verb("apply", folder, "--prune", "--url", one.url, "--json")
    assert (planned.status, [each["sign"] for each in planned.json["steps"]]) == (2, ["-", "-"])
    assert not any(each[3] for each in one.versions("a3"))
    assert verb("apply", folder, "--prune", "--url", one.url, "--yes").status == 0
    gone = [each[0] for each in one.versions("a3") if each[3]]
    assert gone == ["a3-also", "a3-gone"]
    (tmp_path / MANIFEST).unlink()
    unowned = verb("apply", folder, "--prune", "--url", one.url)
    assert unowned.status == 2
    assert 'subjects = ["orders-*"]' in unowned.err


def test_apply_that_fails_midway_says_what_remains_and_resumes(one: Place, tmp_path: Path) -> None:
    files = {"first.avsc": INT, "strict-a.avsc": record("R"), "then.avsc": INT}
    folder = str(write(tmp_path, **files))
    done = verb("apply", folder, "--url", one.url)
    assert done.status == 1
    assert "strict-a version 1" in done.err
    assert "namespace" in done.err
    assert "1 of 3 steps were taken; these remain" in done.err
    assert (one.places("first"), one.places("then")) == ([("first", 1)], [])
    write(tmp_path, **{"strict-a.avsc": record("a.R")})
    resumed = verb("apply", folder, "--url", one.url, "--json")
    assert resumed.status == 0
    assert [each["done"] for each in resumed.json["steps"]] == [True, True]
    assert one.places("then") == [("then", 1)]


def test_a_plan_that_others_have_outdated_is_given_up(one: Place) -> None:
    one.register("outdated", INT)
    with Connection(one.url).open({}) as client, pytest.raises(PlanOutdated, match="version 2 instead of 1"):
        list(perform(client, [Step("+", "", Register("outdated", LONG, "AVRO"), 1)]))


# What a folder wants, and what somebody else does after the plan was made.
OUTDATED: dict[str, tuple[Contents, tuple[str, str, dict[str, object]]]] = {
    "a version": (
        Contents({"S": (Version(LONG),)}, {}, {}), ("POST", "/subjects/S/versions", {"schema": '"float"'})
    ),
    "a first version": (
        Contents({"S-new": (Version(LONG),)}, {}, {}), ("POST", "/subjects/S-new/versions", {"schema": INT})
    ),
    "a config": (
        Contents({}, {"S": {"compatibilityLevel": "FULL"}}, {}), ("PUT", "/config/S", {"normalize": True})
    ),
    "a first config": (
        Contents({}, {"S-new": {"compatibilityLevel": "NONE"}}, {}),
        ("PUT", "/config/S-new", {"normalize": False}),
    ),
    "a deletion": (Contents({}, {}, {}), ("POST", "/subjects/S-gone/versions", {"schema": LONG})),
    "a mode": (Contents({}, {}, {"S": "READONLY"}), ("PUT", "/mode/S", {"mode": "READONLY_OVERRIDE"})),
}  # fmt: skip


class Disagreeing(RegistryClient):
    """A client of nodes that know different censuses."""

    asked = 0

    def get(self, path: str, kind: Any = Any, /, **params: Any) -> Any:
        self.asked += 1
        return {"subject": path.rpartition("/")[2], "census": {"id": f"c{self.asked}"}, "versions": []}


def test_a_plan_ends_though_nodes_know_different_censuses() -> None:
    with Disagreeing([Address("http://127.0.0.1:1", None)], TlsFiles(), 30.0) as client:
        reader = RegistryReader(client)
        assert reader.usage(["a", "b"]) is None
        assert client.asked == 6
        assert [text for text in reader.warnings if "different censuses" in text] == reader.warnings != []


class Overtaken(RegistryClient):
    """A client whose reads are outdated before it writes."""

    overtake: Callable[[], object]

    def get_with_tag(self, path: str, /, **params: Any) -> tuple[Any, str]:
        found = super().get_with_tag(path, **params)
        self.overtake()
        return found


@pytest.mark.parametrize("late", [False, True], ids=["before", "during"])
def test_a_step_is_not_taken_if_what_it_was_planned_upon_has_changed(one: Place, late: bool) -> None:
    name = f"a4-{late}"

    def named(contents: Contents) -> Contents:
        parts = (contents.versions, contents.configs, contents.modes)
        return Contents(*({key.replace("S", name): each for key, each in part.items()} for part in parts))

    def planned(client: RegistryClient, wanted: Contents) -> Plan:
        owned = (
            [] if any((wanted.versions, wanted.configs, wanted.modes)) else [parse_pattern(f"{name}-gone")]
        )
        return plan(wanted, present_for(RegistryReader(client), wanted, owned), prune=owned)

    for subject in (name, f"{name}-gone"):
        one.register(subject, INT)
    one.ask("PUT", f"/config/{name}", {"compatibility": "NONE"})
    one.ask("PUT", f"/mode/{name}", {"mode": "READWRITE"})
    with Overtaken([Address(one.url, None)], TlsFiles(), 30.0) as client:
        for contents, (method, path, body) in OUTDATED.values():
            wanted, change = named(contents), partial(one.ask, method, path.replace("S", name), body)
            client.overtake = lambda: None
            found = planned(client, wanted)
            assert found.possible
            assert found.steps
            if late and found.steps[0].planned_on is not None:
                client.overtake = change
            else:
                change()
            with pytest.raises(PlanOutdated, match="run the command again"):
                list(perform(client, found.steps))
            client.overtake = lambda: None
            again = planned(client, wanted)
            assert list(perform(client, again.steps)) == again.steps
            assert planned(client, wanted).steps == []


# download, upload


def fill(place: Place, prefix: str) -> None:
    place.register(f"{prefix}money", record("Money"))
    place.register(f"{prefix}money", record("Money", "gone").replace('"int"', '"int", "default": 0'))
    refers = [{"name": "Money", "subject": f"{prefix}money", "version": 1}]
    place.register(f"{prefix}a-order", ORDER, references=refers, metadata={"properties": {"owner": "t"}})
    place.register(f"{prefix}json", '{"type": "number", "maximum": 1.0}', schemaType="JSON")
    place.register(
        f"{prefix}proto", 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n', schemaType="PROTOBUF"
    )
    for name in ("x/../y", "..", "CASE", "case", "\u00fc \u2603" * 30, "a" * 255, "5", "%41", "con"):
        place.register(f"{prefix}{name}", STRING)
    place.ask("PUT", f"/config/{quote(prefix)}json", {"compatibility": "NONE"})


def test_what_was_downloaded_needs_no_step_there_and_makes_an_empty_registry_the_same(
    one: Place, other: Place, tmp_path: Path
) -> None:
    fill(one, "d1-")
    one.register(":.eu:d1-x", INT)
    subjects = ("--subjects", "d1-*", "--subjects", ":.eu:*", "--url", one.url)
    for which in ("latest", "all"):
        folder = str(tmp_path / which)
        done = verb("download", folder, *subjects, "--versions", which)
        assert done.status == 0, done.err
        assert verb("apply", folder, "--url", one.url, "--json").json["steps"] == []
        again = verb("download", folder, *subjects, "--versions", which, "--json")
        assert again.json["changed"] == []
    done = verb("apply", str(tmp_path / "all"), "--url", other.url)
    assert done.status == 0, done.err
    assert other.places("d1-") == one.places("d1-")
    assert other.places(":.eu:") == [(":.eu:d1-x", 1)]
    assert other.ask("GET", "/config/d1-json") == {"compatibilityLevel": "NONE"}
    order = "/subjects/d1-a-order/versions/1"
    assert other.ask("GET", order)["metadata"] == one.ask("GET", order)["metadata"]
    assert verb("apply", str(tmp_path / "all"), "--url", other.url, "--json").json["steps"] == []


def test_a_download_keeps_what_the_manifest_says_of_files_and_other_subjects(
    one: Place, tmp_path: Path
) -> None:
    one.register("d2-x", INT)
    manifest = 'subjects = ["d3-*"]\nignore = ["e/*"]\nlint_errors = ["docs"]\n[subject.d3-y]\nalias = "z"\n'
    write(tmp_path, manifest=manifest)
    words = ("download", str(tmp_path), "--subjects", "d2-*", "--url", one.url)
    assert verb(*words).status == 0
    kept = tomllib.loads((tmp_path / MANIFEST).read_text())
    assert kept == tomllib.loads(manifest) | {"subjects": ["d3-*", "d2-*"]}
    write(tmp_path, **{"e/package.json": "{}", "other.avsc": INT})
    assert verb(*words, "--prune").status == 0
    files = {each.name for each in tmp_path.rglob("*") if each.is_file()}
    assert files == {MANIFEST, "d2-x.avsc", "package.json"}, "an ignored file is no schema"
    pruned = tomllib.loads((tmp_path / MANIFEST).read_text())
    assert pruned == {"subjects": ["d2-*"], "ignore": ["e/*"], "lint_errors": ["docs"]}


def test_a_download_keeps_files_where_people_put_them(one: Place, tmp_path: Path) -> None:
    one.register("l1-a", INT)
    write(tmp_path, **{"sales/l1-a.avsc": STRING})
    words = ("download", str(tmp_path), "--subjects", "l1-*", "--url", one.url)
    assert verb(*words, "--json").json["changed"] == [MANIFEST, "sales/l1-a.avsc"]
    assert verb(*words, "--versions", "all", "--keep-ids", "--json").json["changed"] == [
        MANIFEST, "sales/l1-a/1.avsc", "sales/l1-a.avsc",
    ]  # fmt: skip
    assert sorted(each.name for each in (tmp_path / "sales").iterdir()) == ["l1-a"]
    assert verb("upload", str(tmp_path), "--keep-ids", "--url", one.url, "--json").json["steps"] == []


def test_a_download_with_ids_is_uploaded_with_them(one: Place, tmp_path: Path) -> None:
    fill(one, "u1-")
    one.ask("DELETE", "/subjects/u1-case")
    folder = str(tmp_path / "files")
    assert verb("download", folder, "--subjects", "u1-*", "--keep-ids", "--url", one.url).status == 0
    with running(tmp_path / "data") as empty:
        assert verb("upload", folder, "--url", empty.url, "--keep-ids").status == 0
        assert empty.versions() == one.versions("u1-")
        assert empty.ask("GET", "/mode") == {"mode": "READWRITE"}
        assert verb("upload", folder, "--url", empty.url, "--keep-ids", "--json").json["steps"] == []
        empty.register("later", '"bytes"')


def test_a_folder_without_ids_cannot_keep_them(one: Place, tmp_path: Path) -> None:
    done = verb("upload", str(write(tmp_path, **{"a.avsc": INT})), "--url", one.url, "--keep-ids")
    assert done.status == 2
    assert "a has no id to keep" in done.err


# promote


def test_promote_registers_schemas_with_what_they_refer_to(one: Place, other: Place) -> None:
    fill(one, "p1-")
    other.register("p1-money", record("Money"))
    other.register("p1-money", record("Money", "x").replace('"int"', '"int", "default": 0'))
    words = ("promote", "--from", one.url, "--to", other.url, "--subjects", "p1-a-*", "--versions", "all")
    assert verb(*words, "--dry-run").status == 0
    assert other.places("p1-") == [("p1-money", 1), ("p1-money", 2)]
    assert verb(*words).status == 0
    assert other.places("p1-") == [("p1-a-order", 1), ("p1-money", 1), ("p1-money", 2)]
    assert verb(*words, "--json").json["steps"] == []


def test_promote_compares_first_with_what_the_target_has(one: Place, other: Place) -> None:
    one.register("p2", record("R", "a"))
    other.register("p2", record("R", "b"))
    done = verb("promote", "--from", one.url, "--to", other.url, "--subjects", "p2")
    assert done.status == 1
    assert "give `a` a default" in done.out
    assert other.places("p2") == [("p2", 1)]


def test_promote_keeps_ids_or_reports_that_one_is_taken_before_anything_is_written(
    one: Place, tmp_path: Path
) -> None:
    fill(one, "p3-")
    one.ask("DELETE", "/subjects/p3-json/versions/1")
    words = ("promote", "--from", one.url, "--subjects", "p3-*", "--versions", "all", "--keep-ids", "--to")
    with running(tmp_path / "data") as target:
        taken = one.ask("GET", "/subjects/p3-a-order/versions/1")["id"]
        target.ask("PUT", "/mode/holder", {"mode": "IMPORT"})
        target.register("holder", '"bytes"', id=taken, version=1)
        refused = verb(*words, target.url)
        assert refused.status == 1
        assert f"id {taken}" in refused.out
        assert target.places(":*:") == [("holder", 1)]
        target.ask("DELETE", "/subjects/holder")
        target.ask("DELETE", "/subjects/holder?permanent=true")
        done = verb(*words, target.url)
        assert done.status == 0, done.err
        assert target.versions() == one.versions("p3-")
        assert verb(*words, target.url, "--json").json["steps"] == []


def test_promote_of_nothing_gives_no_verdict(one: Place, other: Place) -> None:
    words = ("--from", one.url, "--to", other.url, "--subjects")
    assert verb("promote", *words, "nowhere-*").status == 2
    secret = one.url.replace("://", "://me:secret@")
    assert "secret" not in verb("promote", "--from", secret, *words[2:], "nowhere-*").err
    assert verb("promote", *words, "a*b").status == 2
    assert (
        verb(
            "promote", "--from", one.url, "--to", f"http://127.0.0.1:{free_port()}", "--subjects", "*"
        ).status
        == 2
    )
