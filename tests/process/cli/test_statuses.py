"""The exit statuses of verbs, and the shapes of their JSON, from one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
import jsonschema
import pytest

from registry.cli.verbs import VERBS
from tests.process.cli.folder.places import running
from tests.process.cli.running_verbs import Done, verb
from tests.support.receiver import Receiver
from tests.support.running import ROOT, free_port

SHAPES = ROOT / "docs" / "json"
OLD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
NEW = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'


class Case(NamedTuple):
    """Words that end with status 0 and 1; in these, URL, GOOD, BAD and NEW stand for what the test makes."""

    good: str
    refused: str = ""
    shape: str = ""


CASES = {
    "register": Case("register new NEW/r.avsc", "register r BAD/r.avsc", "register"),
    "show": Case("show r", "show none", "show"),
    "subjects": Case("subjects", "", "subjects"),
    "versions": Case("versions r", "versions none", "versions"),
    "diff": Case("diff r r:1", "diff r BAD/r.avsc", "diff"),
    "delete": Case("delete r --dry-run", "delete none --dry-run", "delete"),
    "undelete": Case("undelete gone", "undelete r", "undelete"),
    "config": Case("config get r", "config get r --own", "config"),
    "mode": Case("mode get r", "mode get r --own", "mode"),
    "history": Case("history r", "history none", "history"),
    "status": Case("status", "", "status"),
    "check": Case("check GOOD", "check BAD", "check"),
    "lint": Case("lint GOOD", "lint BAD --rules docs", "lint"),
    "apply": Case("apply GOOD", "apply BAD", "apply"),
    "upload": Case("upload GOOD", "upload BAD", "apply"),
    "download": Case("download NEW/copy", "", "download"),
    "promote": Case(
        "promote --from URL --to URL --subjects r", "promote --from URL --to OTHER --subjects r", "apply"
    ),
    "duplicates": Case("duplicates URL --subject-prefix none", "duplicates URL", "duplicates"),
    "decode": Case("decode NEW/message", "decode BAD/message", "decode"),
    "doctor": Case("doctor URL", "doctor URL,OTHER", "doctor"),
    "snapshot diff": Case("snapshot diff URL URL", "snapshot diff URL OTHER", "snapshot-diff"),
    "ids list": Case("ids list", "", "ids"),
    "ids release": Case("ids release --from 1000000", "ids release --from 1", "ids"),
    "search": Case("search r", "", "search"),
    "webhook list": Case("webhook list", "", "webhook-list"),
    "webhook add": Case("webhook add new RECEIVER", "webhook add new ftp://x", "webhook"),
    "webhook test": Case("webhook test hook", "webhook test lost", "webhook-test"),
}
# Verbs whose shapes other tests check, and those that print what another verb prints.
ELSEWHERE = {
    "changes": "changes", "snapshot list": "snapshot-list", "torture": "torture", "unused": "unused",
    "census list": "census-list", "census show": "census",
}  # fmt: skip
LIKE = {
    "census run": "census", "config get": "config", "config set": "config", "config delete": "config",
    "mode get": "mode", "mode set": "mode", "mode delete": "mode",
}  # fmt: skip
# These name their registries without --url.
WITHOUT_URL = {"promote", "duplicates", "doctor", "snapshot diff"}
# The one asks no registry; to the other, a server that does not answer is a finding.
WITHOUT_ANSWER = {"lint", "doctor"}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("statuses")
    (folder / "secret").write_text("a secret of this test only, long enough")
    hooks = (
        "--webhooks-secret-file",
        str(folder / "secret"),
        "--webhooks-http",
        "--webhooks-allow",
        "localhost",
    )
    with (
        running(folder / "data", *hooks) as one,
        running(folder / "other") as other,
        Receiver() as receiver,
    ):
        one.register("r", OLD)
        for number, text in enumerate(('{"type":"object","title":"t"}', '{"title":"t","type":"object"}')):
            one.register(f"equal-{number}", text, schemaType="JSON")
        one.register("gone", OLD)
        one.ask("DELETE", "/subjects/gone")
        for name, port in (("hook", receiver.url.rpartition(":")[2]), ("lost", free_port())):
            one.ask("PUT", f"/admin/webhooks/{name}", {"url": f"http://localhost:{port}"})
        other.register("r", NEW.replace('"a"', '"c"'))
        found = {"URL": one.url, "OTHER": other.url, "DEAD": f"http://127.0.0.1:{free_port()}"}
        found["RECEIVER"] = receiver.url
        for name, text in (("GOOD", OLD), ("BAD", NEW), ("NEW", OLD)):
            (folder / name).mkdir()
            (folder / name / "r.avsc").write_text(text)
            found[name] = str(folder / name)
        for name, number in (("NEW", 1), ("BAD", 999)):
            (folder / name / "message").write_bytes(b"\0" + number.to_bytes(4, "big") + b"\x02")
        yield found


def run(name: str, text: str, places: dict[str, str], url: str, folder: Path) -> Done:
    words = text.split()
    for place, value in places.items():
        words = [each.replace(place, value) for each in words]
    if name not in WITHOUT_URL:
        words += ["--url", url]
    if name in ("duplicates", "snapshot diff"):
        words += ["--data", str(folder)]
    return verb(*words, "--json")


def check(shape: str, found: Any) -> None:
    expected = json.loads((SHAPES / f"{shape}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(expected)
    jsonschema.validate(found, expected)


def check_document(shape: str, done: Done) -> None:
    """Check that a verb printed its own document, or the reason why there is none."""
    if isinstance(done.json, dict) and {*done.json} == {"error"} and shape != "decode":
        assert done.json["error"]["status"] == done.status
        assert done.err.startswith(f"registrar: {done.json['error']['message']}"[:60])
        shape = "error"
    check(shape, done.json)


@pytest.mark.parametrize("name", CASES)
def test_a_verb_ends_with_the_status_that_its_help_says(
    places: dict[str, str], tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    good = run(name, case.good, places, places["URL"], tmp_path)
    assert good.status == 0, good.err
    check(case.shape, good.json)
    if case.refused:
        refused = run(name, case.refused, places, places["URL"], tmp_path)
        assert refused.status == 1, refused.err
        check_document(case.shape, refused)
    dead = {**places, "URL": places["DEAD"]}
    if name not in WITHOUT_ANSWER:
        unknown = run(name, case.good, dead, places["DEAD"], tmp_path)
        assert unknown.status == 2, unknown.out
        check_document(case.shape, unknown)
    wrong = verb(*name.split(), "--nonsense", "--json")
    assert wrong.status == 2
    check("error", wrong.json)


def test_the_list_of_snapshots_has_its_shape(tmp_path: Path, places: dict[str, str]) -> None:
    with running(tmp_path / "data") as place:
        place.register("r", OLD)
    assert verb("snapshot", "build", "--engine", "local", "--data", str(tmp_path / "data")).status == 0
    listed = verb("snapshot", "list", "--json", "--data", str(tmp_path / "data"))
    assert listed.status == 0
    assert len(listed.json) == 1
    check("snapshot-list", listed.json)


def test_every_shape_of_the_docs_is_used() -> None:
    used = {case.shape for case in CASES.values()} | {*ELSEWHERE.values()}
    assert {path.name.removesuffix(".schema.json") for path in SHAPES.glob("*.json")} == used | {"error"}


def verbs(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for word, each in command.commands.items():
        yield from verbs(f"{name} {word}", each)


def test_every_verb_that_prints_json_has_a_shape() -> None:
    printing = set()
    for row in VERBS:
        module, _, name = row.place.partition(":")
        for verb_name, command in verbs(row.name, getattr(import_module(module), name)):
            if any("--json" in each.opts for each in command.params):
                printing.add(verb_name)
    assert printing == {*CASES, *ELSEWHERE, *LIKE} - {"config", "mode"}
    assert all((SHAPES / f"{LIKE[each]}.schema.json").is_file() for each in LIKE)
