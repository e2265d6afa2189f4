"""The counts of who asks: kept for some days, within bounds, and merged over nodes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from registry.api.asks import Ask, Asker, AskersOf, Asks, LocalAsks, Thing, of_guid, of_id, of_subject, today
from registry.domain.errors import UNAVAILABLE, RegistryError
from registry.domain.model import Subject
from registry.node import ask_store
from registry.node import asks as node_asks
from registry.node.ask_store import AskStore
from registry.node.asks import FILE, Asking
from tests.api.driver import Api, record

DAY = 20_000
BILLING, REPORTS = Asker("billing", "", "java/7.5"), Asker("", "10.0.0.1", "python")


def ask(asker: Asker, name: str, requests: int = 1, day: int = DAY, version: int = 0) -> Ask:
    return Ask(asker, Thing(name, version), day, day, requests)


def test_counts_add_up_over_days_and_survive_the_process(tmp_path: Path) -> None:
    store = AskStore(tmp_path / FILE, 30, lambda: DAY + 1)
    store.add(Asks(DAY, [ask(BILLING, "id 1 .", 2), ask(REPORTS, "id 1 .")], other=4))
    store.add(Asks(DAY, [ask(BILLING, "id 1 ."), ask(BILLING, "id 2 .")]))
    store.add(Asks(DAY + 1, [ask(BILLING, "id 1 .", 5, DAY + 1)]))
    assert store.other == 4
    store.close()
    store = AskStore(tmp_path / FILE, 30, lambda: DAY + 1)
    found = store.find(["id 1 .", "id 3 ."])
    store.close()
    assert found == LocalAsks(
        [Ask(BILLING, Thing("id 1 ."), DAY, DAY + 1, 8), Ask(REPORTS, Thing("id 1 ."), DAY, DAY, 1)],
        since=DAY, other=4,
    )  # fmt: skip


def test_days_are_forgotten_when_their_time_is_over(tmp_path: Path) -> None:
    now = DAY
    store = AskStore(tmp_path / FILE, 3, lambda: now)
    for day in range(DAY, DAY + 5):
        now = day
        store.add(Asks(day, [ask(BILLING, "id 1 .", 1, day)], other=1))
    found = store.find(["id 1 ."])
    assert (found.asks[0].first, found.asks[0].last, found.asks[0].requests) == (DAY + 2, DAY + 4, 3)
    assert (found.since, found.other) == (DAY + 2, 3)
    now = DAY + 6  # Nobody has asked since.
    assert store.find(["id 1 ."]).asks[0].first == DAY + 4
    store.close()
    with sqlite3.connect(tmp_path / FILE) as file:
        assert file.execute("select count(*), min(day) from asks").fetchone() == (3, DAY + 2)
    file.close()


def test_more_rows_than_a_day_may_have_count_as_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_store, "ROWS_A_DAY_MAX", 2)
    for _ in range(2):  # Of a new process too.
        store = AskStore(tmp_path / FILE, 30, lambda: DAY)
        store.add(Asks(DAY, [ask(BILLING, f"id {number} .", 3) for number in range(4)]))
        assert store.other == 6
        found = store.find([f"id {number} ." for number in range(4)])
        store.close()
    assert [each.requests for each in found.asks] == [6, 6]
    assert found.other == 12


def test_a_file_that_is_no_database_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database, but long enough to be taken for one" * 100)
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert store.find(["id 1 ."]).asks == [ask(BILLING, "id 1 .")]
    store.close()


def test_a_damaged_file_is_replaced_when_that_is_noticed(tmp_path: Path) -> None:
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    store.add(Asks(DAY, [ask(BILLING, f"id {number} .") for number in range(500)]))
    store.close()
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:24576] + b"\xff" * (len(whole) - 24576))
    with pytest.raises(RegistryError):
        store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert store.find(["id 1 ."]).asks == [ask(BILLING, "id 1 .")]
    store.close()


def test_a_file_that_cannot_be_written_is_an_error_and_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    store = AskStore(folder / FILE, 30, lambda: DAY)
    with pytest.raises(RegistryError) as raised:
        store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert raised.value.code == UNAVAILABLE.code
    folder.mkdir()
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert store.find(["id 1 ."]).asks == [ask(BILLING, "id 1 .")]
    store.close()


def test_the_newest_askers_are_returned_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_store, "ROWS_SHOWN_MAX", 2)
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    for day in range(4):
        store.add(Asks(DAY - day, [ask(Asker(f"p{day}", "", ""), "id 1 .", 1, DAY - day)]))
    found = store.find(["id 1 ."])
    store.close()
    assert [each.asker.principal for each in found.asks] == ["p0", "p1"]
    assert found.more == 2


def test_principals_of_two_kinds_with_one_name_are_two(tmp_path: Path) -> None:
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    kinds = [Asker("billing", "", "java", kind) for kind in ("token", "user")]
    for _ in range(2):
        store.add(Asks(DAY, [ask(each, "id 1 .") for each in kinds]))
    found = store.find(["id 1 ."]).asks
    store.close()
    assert sorted((each.asker, each.requests) for each in found) == [(each, 2) for each in kinds]


def test_a_file_of_another_release_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for statement in ("create table asks (name text)", "pragma user_version = 99"):
        with sqlite3.connect(tmp_path / FILE) as file:
            file.execute(statement)
        file.close()
        store = AskStore(tmp_path / FILE, 30, lambda: DAY)
        store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
        assert store.find(["id 1 ."]).asks == [ask(BILLING, "id 1 .")]
        store.close()
    assert [each.message.partition("format ")[2] for each in caplog.records] == [
        "0, and this release 1", "99, and this release 1",
    ]  # fmt: skip


def test_a_damaged_index_is_replaced_too(tmp_path: Path) -> None:
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    store.close()
    with sqlite3.connect(tmp_path / FILE) as file:
        # As if the row were there and could not be found.
        file.execute("create trigger t before insert on asks begin select raise(abort, 'twice'); end")
    file.close()
    with pytest.raises(RegistryError):
        store.add(Asks(DAY, [ask(BILLING, "id 2 .")]))
    store.add(Asks(DAY, [ask(BILLING, "id 2 .")]))
    assert store.find(["id 2 ."]).asks == [ask(BILLING, "id 2 .")]
    store.close()


def test_a_file_that_another_process_holds_is_not_replaced(tmp_path: Path) -> None:
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("begin exclusive")
    with pytest.raises(RegistryError, match="locked"):
        store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    other.execute("rollback")
    other.close()
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert store.find(["id 1 ."]).asks == [ask(BILLING, "id 1 .", 2)]
    store.close()


def test_a_file_that_cannot_be_removed_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(ask_store, "remove", fail)
    (tmp_path / FILE).write_bytes(b"no database, but long enough to be taken for one" * 100)
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    for _ in range(2):
        with pytest.raises(RegistryError, match="Permission denied"):
            store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))


def test_only_the_user_of_the_registry_may_read_the_file(tmp_path: Path) -> None:
    store = AskStore(tmp_path / FILE, 30, lambda: DAY)
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    store.close()


def test_a_clock_that_was_ahead_at_first_does_not_hide_what_was_counted_since(tmp_path: Path) -> None:
    now = DAY + 1_000
    store = AskStore(tmp_path / FILE, 30, lambda: now)
    assert store.find([]).since == now
    now = DAY
    store.add(Asks(DAY, [ask(BILLING, "id 1 .")]))
    assert store.find(["id 1 ."]).since == DAY
    store.close()


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as api:
        for field in ("a", "b"):
            api.register("s", record("R", field))
        api.register("other", record("R", "b"))
        yield api


def asking(folder: Path, api: Api, keep_days: int = 30) -> Asking:
    return Asking(folder, keep_days, api.backend.view)


def test_a_subject_is_asked_for_by_name_id_and_guid_and_a_schema_as_a_version_too(
    tmp_path: Path, api: Api
) -> None:
    guid = UUID(api.get("/subjects/s/versions/2").json["guid"])
    part, day = asking(tmp_path, api), today()

    async def ask_all() -> tuple[list[Ask], list[Ask]]:
        asks = [
            ask(BILLING, of_id(".", 1), 1, day), ask(BILLING, of_id(".", 2), 2, day),
            ask(BILLING, of_guid(guid), 4, day),
            ask(BILLING, of_subject(Subject.parse("s")), 8, day, 2),
            ask(BILLING, of_subject(Subject.parse("s")), 16, day),
            ask(BILLING, of_subject(Subject.parse("s")), 32, day, 1),
            ask(BILLING, of_subject(Subject.parse("other")), 64, day, 1),
            ask(BILLING, of_id(".c", 2), 128, day),
        ]  # fmt: skip
        await part.add(Asks(day, asks))
        subject = await part.askers(AskersOf(subject="s"))
        schema = await part.askers(AskersOf(schema_id=2))
        return subject.asks, schema.asks

    subject, schema = asyncio.run(ask_all())
    part.close()
    assert {each.thing.version: each.requests for each in subject} == {0: 16, 1: 33, 2: 14}
    assert [(each.thing.version, each.requests) for each in schema] == [(0, 2 + 4 + 8 + 64)]


def test_a_request_for_an_alias_counts_for_the_subject_that_it_stood_for(tmp_path: Path, api: Api) -> None:
    part, day = asking(tmp_path, api), today()
    name = of_subject(Subject.parse("alias"))
    asked = {"s": 1, "other": 2, "gone": 4, "alias": 8}
    for target, requests in asked.items():
        api.put("/config/alias", {"alias": "" if target == "alias" else target})
        asyncio.run(part.add(Asks(day, [ask(BILLING, name, requests, day, 1)])))
    for subject, requests in asked.items():
        found = asyncio.run(part.askers(AskersOf(subject=subject)))
        assert [(each.thing.version, each.requests) for each in found.asks] == [(1, requests)]
    part.close()


def test_calls_are_refused_while_too_many_wait_and_after_the_end(
    tmp_path: Path, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_asks, "_WAITING_MAX", 2)
    part, day = asking(tmp_path, api), today()
    hung = threading.Event()

    async def run() -> None:
        part._thread.submit(hung.wait)  # A disk that hangs.
        adding = [
            asyncio.create_task(part.add(Asks(day, [ask(BILLING, "id 1 .", 1, day)]))) for _ in range(2)
        ]
        await asyncio.wait(adding, timeout=0)  # They have begun.
        with pytest.raises(RegistryError, match="not written"):
            await part.add(Asks(day, [ask(BILLING, "id 1 .", 1, day)]))
        hung.set()
        await asyncio.gather(*adding)
        assert (await part.askers(AskersOf(schema_id=1))).asks[0].requests == 2
        part.close()
        part.close()
        with pytest.raises(RegistryError, match="not written"):
            await part.add(Asks(day, []))

    asyncio.run(run())


def test_other_nodes_are_asked_and_those_that_do_not_answer_are_named(tmp_path: Path, api: Api) -> None:
    day = today()
    one, two = (asking(tmp_path / name, api) for name in ("one", "two"))
    off = asking(tmp_path, api, keep_days=0)

    async def others(body: bytes) -> dict[str, bytes | None]:
        return {
            "two": await two.answer_peer(body),
            "off": await off.answer_peer(body),
            "gone": None,
            "odd": b"\xc1",
        }

    async def run() -> None:
        for node in (tmp_path / "one", tmp_path / "two"):
            node.mkdir()
        await one.add(Asks(day, [ask(BILLING, "id 1 .", 1, day)], other=1))
        await two.add(Asks(day, [ask(BILLING, "id 1 .", 2, day), ask(REPORTS, "id 1 .", 1, day)], other=2))
        one.ask_others = others
        one.without_answer = lambda answers: {node: f"http://{node}" for node in answers if not answers[node]}
        found = await one.askers(AskersOf(subject="s"))
        assert {(each.asker, each.requests) for each in found.asks} == {(BILLING, 3), (REPORTS, 1)}
        assert (found.other, found.since) == (3, day)
        assert found.missing == ["http://gone", "http://odd", "http://off"]
        with pytest.raises(msgspec.DecodeError):
            await one.answer_peer(b"\x01")

    asyncio.run(run())
    one.close()
    two.close()


def test_nothing_is_kept_when_counting_is_off(tmp_path: Path, api: Api) -> None:
    async def run(keep_days: int) -> int | None:
        node = asking(tmp_path, api, keep_days)
        node.start()
        await node.add(Asks(today(), [ask(BILLING, "id 1 .", 1, today())]))
        found = await node.askers(AskersOf(subject="s"))
        node.close()
        return found.since

    assert asyncio.run(run(30)) is not None
    assert (tmp_path / FILE).exists()
    assert asyncio.run(run(0)) is None
    assert list(tmp_path.iterdir()) == []
