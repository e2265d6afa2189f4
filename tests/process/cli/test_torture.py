"""``registrar torture``: registries that lie get the right verdict, and the few operations that prove it."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import httpx
import jsonschema
import pytest

from tests.process.cli.running_verbs import Done, verb
from tests.support.running import ROOT, Served

SHAPE = ROOT / "docs" / "json" / "torture.schema.json"
Answered = tuple[int, Any]
NOTHING: Answered = (404, {"error_code": 40401, "message": "not found"})
UNAVAILABLE: Answered = (503, {"error_code": 50301, "message": "not now"})


class Truthful:
    """A registry in memory that speaks as much of the API as the test uses, at several addresses."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ids: dict[str, int] = {}
        self.subjects: dict[str, dict[int, str]] = {}
        self.deleted: set[tuple[str, int]] = set()

    def answer(self, address: int, method: str, path: str, body: Any) -> Answered:
        """Answer a request to the first address (0) or another one."""
        words = [unquote(each) for each in path.partition("?")[0].split("/")[1:]]
        with self.lock:
            match method, words:
                case "GET", ["schemas", "types"]:
                    return 200, ["AVRO"]
                case "GET", ["subjects"]:
                    return 200, []
                case "GET", ["schemas", "ids", number]:
                    return self.by_id(address, int(number))
                case "POST", ["subjects", subject, "versions"]:
                    return self.register(subject, body["schema"])
                case "GET", ["subjects", subject, "versions"]:
                    return self.listed(address, subject)
                case "GET", ["subjects", subject, "versions", number]:
                    return self.version(address, subject, number)
                case "DELETE", ["subjects", subject, *rest]:
                    if "permanent" in path:
                        return self.forget(subject)
                    return self.delete(subject, int(rest[1]) if rest else 0)
        raise AssertionError((method, path))

    def new_id(self, schema: str) -> int:
        return self.ids.setdefault(schema, len(self.ids) + 1)

    def register(self, subject: str, schema: str) -> Answered:
        number = self.new_id(schema)
        versions = self.subjects.setdefault(subject, {})
        if schema not in (versions[each] for each in self.active(subject)):
            versions[self.next_version(versions)] = schema
        return 200, {"id": number}

    def next_version(self, versions: dict[int, str]) -> int:
        return max(versions, default=0) + 1

    def active(self, subject: str) -> list[int]:
        return [each for each in self.subjects.get(subject, {}) if (subject, each) not in self.deleted]

    def by_id(self, address: int, number: int) -> Answered:
        found = [schema for schema, each in self.ids.items() if each == number]
        return (200, {"schema": found[0]}) if found else NOTHING

    def listed(self, address: int, subject: str) -> Answered:
        active = self.active(subject)
        return (200, active) if active else NOTHING

    def version(self, address: int, subject: str, number: str) -> Answered:
        active = self.active(subject)
        wanted = max(active, default=0) if number == "latest" else int(number)
        if wanted not in active:
            return NOTHING
        schema = self.subjects[subject][wanted]
        return 200, {"subject": subject, "version": wanted, "id": self.ids[schema], "schema": schema}

    def delete(self, subject: str, number: int) -> Answered:
        gone = [each for each in self.active(subject) if number in (0, each)]
        self.deleted.update((subject, each) for each in gone)
        return (200, number or gone) if gone else NOTHING

    def forget(self, subject: str) -> Answered:
        return (200, [*self.subjects.pop(subject)]) if subject in self.subjects else NOTHING


class LosesWrites(Truthful):
    """Acknowledges what it does not keep."""

    def register(self, subject: str, schema: str) -> Answered:
        return 200, {"id": self.new_id(schema), "version": 1}


class GivesTwoIds(Truthful):
    """Does not recognize a schema under another subject."""

    def register(self, subject: str, schema: str) -> Answered:
        super().register(subject, schema)
        self.ids.pop(schema, None)
        self.ids[schema] = self.serial = getattr(self, "serial", 0) + 1
        return 200, {"id": self.serial}


class UsesAnIdTwice(Truthful):
    """Counts ids in two places at once, as two primaries would."""

    def new_id(self, schema: str) -> int:
        return self.ids.setdefault(schema, len(self.ids) // 2 + 1)


class _LagsBehind(Truthful):
    """At the second address, the first reads of each thing are answered from before it was written."""

    lag: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[object, int] = {}

    def is_behind(self, address: int, thing: object) -> bool:
        count = self.reads[thing] = self.reads.get(thing, 0) + address
        return 0 < count * address <= self.lag


class ForgetsIds(_LagsBehind):
    def by_id(self, address: int, number: int) -> Answered:
        return NOTHING if self.is_behind(address, number) else super().by_id(address, number)


class ListsTooLittle(_LagsBehind):
    def listed(self, address: int, subject: str) -> Answered:
        return NOTHING if self.is_behind(address, subject) else super().listed(address, subject)


class ShowsAnOldLatest(_LagsBehind):
    def version(self, address: int, subject: str, number: str) -> Answered:
        behind = number == "latest" and self.is_behind(address, subject)
        return NOTHING if behind else super().version(address, subject, number)


class SkipsVersions(Truthful):
    def next_version(self, versions: dict[int, str]) -> int:
        return max(versions, default=0) + 2


class CountsDown(Truthful):
    def new_id(self, schema: str) -> int:
        return self.ids.setdefault(schema, 100_000 - len(self.ids))


class Undeletes(Truthful):
    """Forgets deletions as soon as somebody has seen them."""

    def listed(self, address: int, subject: str) -> Answered:
        found = super().listed(address, subject)
        self.deleted = {each for each in self.deleted if each[0] != subject}
        return found


class FailsForever(Truthful):
    def register(self, subject: str, schema: str) -> Answered:
        return super().register(subject, schema) if "probe" in subject else UNAVAILABLE


class RefusesWhatIsCompatible(Truthful):
    def register(self, subject: str, schema: str) -> Answered:
        if any("probe" not in each for each in self.subjects):
            return 409, {"error_code": 409, "message": "incompatible"}
        return super().register(subject, schema)


LIES: dict[type[Truthful], set[str]] = {
    LosesWrites: {"lost-write"},
    GivesTwoIds: {"two-ids"},
    UsesAnIdTwice: {"two-schemas"},
    ForgetsIds: {"stale-id"},
    ListsTooLittle: {"stale-list"},
    ShowsAnOldLatest: {"stale-latest"},
    SkipsVersions: {"version-gap"},
    CountsDown: {"falling-ids"},
    Undeletes: {"came-back"},
    FailsForever: {"unavailable"},
    RefusesWhatIsCompatible: {"refused"},
}


class _Handler(BaseHTTPRequestHandler):
    """Passes requests on to the registry of its server, and answers in JSON."""

    protocol_version = "HTTP/1.1"
    registry: ClassVar[Truthful]
    address: ClassVar[int]

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        status, answer = self.registry.answer(self.address, self.command, self.path, body)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the names of http.server

    def log_message(self, format: str, *words: object) -> None:
        """Print nothing."""


@contextmanager
def served(registry: Truthful) -> Iterator[list[str]]:
    """Serve a registry at two addresses."""
    servers = []
    for number in range(2):
        handler = type("Handler", (_Handler,), {"registry": registry, "address": number})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
    try:
        yield [f"http://127.0.0.1:{each.server_port}" for each in servers]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def torture(urls: list[str], *words: str, turns: int = 8) -> Done:
    """Run the test until each of three clients has taken its turns: all kinds in each eight."""
    flags = [*itertools.chain(*(("--url", url) for url in urls)), "--seconds", "3000", "--clients", "3"]
    return verb("torture", *flags, "--turns", str(turns), "--seed", "7", "--max-unavailable", "0.2", *words)


def as_json(done: Done) -> Any:
    jsonschema.validate(done.json, json.loads(SHAPE.read_text(encoding="utf-8")))
    return done.json


@pytest.mark.parametrize("kind", LIES)
def test_a_lie_is_proved_by_few_operations(kind: type[Truthful]) -> None:
    registry = kind()
    with served(registry) as urls:
        done = torture(urls, "--json")
    assert done.status == 1, done.err
    found = as_json(done)
    assert LIES[kind] <= {*found["violations"]}, found
    assert sum(each["count"] for each in found["failures"]) == found["operations"]["failed"]
    proofs = {each["law"]: each for each in found["proofs"]}
    for law in LIES[kind]:
        operations = proofs[law]["operations"]
        assert 1 <= len(operations) <= 3, proofs[law]
        assert {each["address"] for each in operations} <= {*urls}
        assert all(0 <= each["began"] <= each["ended"] for each in operations)
        said = {each.get("message") for each in operations}
        assert said == ({"not now"} if law == "unavailable" else {None})
    assert not [each for each in registry.subjects if each not in found.get("left", [])]


def test_the_truth_has_no_violation(tmp_path: Path) -> None:
    registry, file = Truthful(), tmp_path / "history"
    with served(registry) as urls:
        done = torture(urls, "--history", str(file))
    assert done.status == 0, done.out + done.err
    assert "no violation" in done.out
    assert not registry.subjects
    head, *operations = [json.loads(line) for line in file.read_text().splitlines()]
    assert head["format"] == "registrar-history/1"
    kinds = {each["op"] for each in operations}
    assert kinds >= {"register", "by-id", "list", "latest", "delete", "delete-version"}
    assert {each["address"] for each in operations if each["op"] == "by-id"} == {*urls}
    assert {each["outcome"] for each in operations} <= {"ok", "missing", "refused"}


def test_where_staleness_is_tolerated_reads_are_repeated_later(tmp_path: Path) -> None:
    file = tmp_path / "history"
    with served(Truthful()) as urls:
        done = torture(urls, "--staleness", "0.01", "--history", str(file), turns=20)
    assert done.status == 0, done.out
    _, *operations = [json.loads(line) for line in file.read_text().splitlines()]
    reads = [each for each in operations if each["op"] == "by-id" and each["client"] != "final"]
    written = sum(each["op"] == "register" for each in operations)
    assert len(reads) > 2 * written  # more than once on each address


def test_proofs_are_lines_of_json_for_people_too() -> None:
    with served(GivesTwoIds()) as urls:
        done = torture(urls)
    assert done.status == 1
    after = done.out[re.search(r"^two-ids: .*\n", done.out, re.MULTILINE).end() :]  # type: ignore[union-attr]
    first, second = (json.loads(line) for line in after.splitlines()[:2])
    assert first["schema"] == second["schema"]
    assert first["id"] != second["id"]


def test_what_is_ignored_is_no_violation() -> None:
    with served(GivesTwoIds()) as urls:
        ignored = [*itertools.chain(*(("--ignore", law) for law in ("two-ids", "two-schemas", "stale-id")))]
        assert torture(urls, *ignored, "--ignore", "lost-write").status == 0
        wrong = torture(urls, "--ignore", "nonsense")
    assert wrong.status == 2
    assert "unknown law 'nonsense'; choose from lost-write" in wrong.err


def test_a_failing_hook_leaves_no_verdict_and_no_subjects() -> None:
    registry = Truthful()
    with served(registry) as urls:
        done = torture(urls, "--hook", "ls --no-such-flag", "--every", "0.1", turns=1_000_000)
    assert done.status == 2
    assert "the hook failed for http://127.0.0.1:" in done.err
    assert not registry.subjects


def test_a_registry_that_accepts_no_writes_is_not_judged() -> None:
    registry = RefusesWhatIsCompatible()
    registry.subjects["taken"] = {}
    with served(registry) as urls:
        done = torture(urls)
    assert done.status == 2
    assert "nothing can be registered under torture-" in done.err


def test_a_registry_with_subjects_is_only_used_after_a_question(registry: Served) -> None:
    with httpx.Client(base_url=registry.url) as client:
        schema = {"schema": '{"type":"record","name":"Kept","fields":[]}'}
        assert client.post("/subjects/kept-by-torture/versions", json=schema).status_code == 200
        asked = torture([registry.url])
        assert asked.status == 2
        assert "confirm with --yes" in asked.err
        done = torture([registry.url], "--yes", turns=2)
        assert done.status == 0, done.out + done.err
        left = client.get("/subjects", params={"subjectPrefix": "torture-", "deleted": True}).json()
        assert left == []
        assert client.get("/subjects/kept-by-torture/versions").json() == [1]
