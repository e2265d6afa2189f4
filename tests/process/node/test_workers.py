"""Worker processes are bounded, may die, and do not delay requests that do not need them."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from registry.domain.commands import Refused, Register
from registry.domain.errors import RegistryError
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery, Source, facts, several
from registry.log.embedded.log import EmbeddedLog
from registry.node.write.queue import SPARE_S
from registry.workers.pool import SLOW, WAITING_CHARACTERS_MAX, WAITING_MAX, Answered, Pool
from tests.process.node.stations import Station
from tests.process.raw import RawClient, get, post
from tests.support.running import Registry, until


def unions(leaf: str) -> str:
    """Return a schema that takes longer to compare with another of its kind than anyone waits."""
    return '{"anyOf":[{"type":"null"},' * 1500 + f'{{"type":"{leaf}"}}' + "]}" * 1500


def endless() -> Unanswered:
    pair = Source("JSON", unions("integer")), Source("JSON", unions("string"))
    return Unanswered(SchemaQuery("differences", *pair, (("reader_is", "new"),)), "It takes too long")


def short(text: str = '{"type": "int"}') -> Unanswered:
    return Unanswered(SchemaQuery("canonical", Source("AVRO", text)))


class Outcome:
    def __init__(self, pool: Pool, lacking: Unanswered, **options: Any) -> None:
        self.outcomes: Queue[Answered | RegistryError] = Queue()
        pool.ask(lacking, self.outcomes.put, **options)

    def outcome(self) -> Answered | RegistryError:
        return self.outcomes.get(timeout=60)


def started() -> list[int]:
    """Return the worker processes that this process has started."""
    children = [
        pid.decode() for each in Path("/proc/self/task").glob("*/children") for pid in _read(each).split()
    ]
    return [int(pid) for pid in children if b"registry.workers" in _read(Path(f"/proc/{pid}/cmdline"))]


def _read(of_task: Path) -> bytes:
    try:
        return of_task.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""  # It has ended meanwhile.


Processes = Callable[[], list[int]]


@pytest.fixture
def processes() -> Processes:
    """Return those that the test has started: earlier tests may have left some that are idle."""
    others = set(started())
    return lambda: [pid for pid in started() if pid not in others]


def test_writes_that_wait_too_long_for_workers_are_refused_without_a_thread(
    tmp_path: Path,
) -> None:
    pool = Pool(60, quick_s=300)
    Outcome(pool, endless())
    log = EmbeddedLog(tmp_path / "log")
    station = Station(tmp_path / "alone", log, timeout_s=SPARE_S + 0.25, pool=pool)
    log.claim()
    station.writer.open(None)
    before = threading.active_count()
    for number in range(20):
        station.submit(Register(f"s{number}", unions("string"), "JSON"))
    station.writer.step()
    assert threading.active_count() == before
    assert not station.outcomes
    assert len(station.timers) == 20
    for seconds, timed_out in station.timers:
        assert seconds == 0.25
        timed_out()
    assert len(station.outcomes) == 20
    told = {(each.code, each.message) for each in station.outcomes if isinstance(each, Refused)}
    assert told == {(503, f"Nothing was written. {SLOW}")}
    pool.close()
    station.close()


def test_a_question_is_answered_or_bounded() -> None:
    pool = Pool(0.1)
    long, quick = Outcome(pool, endless()), Outcome(pool, short())
    assert quick.outcome()[0] == SchemaAnswer('"int"')
    refused = long.outcome()
    assert isinstance(refused, RegistryError)
    assert (refused.code, refused.message) == (422, "It takes too long")
    assert Outcome(pool, short()).outcome()[0] == SchemaAnswer('"int"')
    spent = Outcome(pool, short(), spent_s=0.1).outcome()
    assert isinstance(spent, RegistryError)
    pool.close()


def test_a_process_that_died_is_replaced_and_asked_again(processes: Processes) -> None:
    pool = Pool(60)
    Outcome(pool, short()).outcome()
    (idle,) = processes()
    os.kill(idle, signal.SIGKILL)
    assert Outcome(pool, short()).outcome()[0] == SchemaAnswer('"int"')
    pool.close()


def test_a_question_that_raises_an_error_costs_no_process(processes: Processes) -> None:
    pool = Pool(60)
    Outcome(pool, short()).outcome()
    before = processes()
    failed = Outcome(pool, Unanswered(SchemaQuery("unheard", Source("AVRO", '"int"')))).outcome()  # type: ignore[arg-type]
    assert isinstance(failed, Answered)
    assert "AttributeError" in str(failed.known.failure)
    with pytest.raises(RegistryError, match="Internal Server Error"):
        failed.known.result()
    assert Outcome(pool, short()).outcome()[0] == SchemaAnswer('"int"')
    assert processes() == before
    pool.close()


def test_a_question_that_costs_two_processes_is_given_up(processes: Processes) -> None:
    pool = Pool(60, quick_s=300)
    Outcome(pool, short()).outcome()
    (first,) = processes()
    under_way = Outcome(pool, endless())
    os.kill(first, signal.SIGKILL)
    (second,) = until(lambda: [each for each in processes() if each != first], 30, "another process")
    os.kill(second, signal.SIGKILL)
    broken = under_way.outcome()
    assert isinstance(broken, RegistryError)
    assert (broken.code, "ended twice" in broken.message) == (503, True)
    assert Outcome(pool, short()).outcome()[0] == SchemaAnswer('"int"')
    pool.close()


def test_many_questions_are_one_and_their_comparisons_share_the_budget() -> None:
    pool = Pool(0.1)
    sources = [Source("AVRO", f'{{"type":"{name}"}}') for name in ("int", "long", "nothing")]
    pair = SchemaQuery("differences", sources[0], sources[1], (("reader_is", "new"),))
    joint = several([*(SchemaQuery("canonical", each) for each in sources), pair, pair])
    told = Outcome(pool, Unanswered(joint)).outcome()
    assert isinstance(told, Answered)
    found = facts(joint, told.known)
    assert [found[SchemaQuery("canonical", each)].value for each in sources] == ['"int"', '"long"', None]
    assert len(found[pair].result()) == 1
    refused = Outcome(
        pool, Unanswered(several([short().query, endless().query]), "It takes too long")
    ).outcome()
    assert isinstance(refused, RegistryError)
    assert (refused.code, refused.message) == (422, "It takes too long")
    pool.close()


def test_an_ordinary_burst_is_answered_by_a_process_that_has_yet_to_start() -> None:
    pool = Pool()
    asked = [Outcome(pool, short(f'{{"type":"fixed","name":"F","size":{size}}}')) for size in range(1, 101)]
    assert all(isinstance(each.outcome(), Answered) for each in asked)
    pool.close()


@pytest.mark.parametrize(
    ("count", "text"),
    [(WAITING_MAX + 2, '"int"'), (4, "x" * (WAITING_CHARACTERS_MAX // 2))],
    ids=["questions", "characters"],
)
def test_too_much_is_refused_at_once_and_nothing_is_left(processes: Processes, count: int, text: str) -> None:
    pool = Pool(60, quick_s=300)
    asked = [Outcome(pool, endless()), *(Outcome(pool, short(text)) for _ in range(count))]
    refused = asked[-1].outcome()
    assert isinstance(refused, RegistryError)
    assert refused.code == 503
    pool.close()
    for each in asked[:-1]:
        assert isinstance(each.outcome(), RegistryError)
    until(lambda: not processes(), 10, "the processes to end")
    closed = Outcome(pool, short()).outcome()
    assert isinstance(closed, RegistryError)


def test_idle_processes_end(processes: Processes) -> None:
    pool = Pool(idle_s=0.01)
    Outcome(pool, short()).outcome()
    until(lambda: not processes(), 10, "the process to end")
    assert isinstance(Outcome(pool, short()).outcome(), Answered)
    pool.close()


def test_what_takes_long_keeps_nobody_waiting_and_what_is_late_is_no_fault_of_its_own() -> None:
    pool = Pool(60, quick_s=0.01)
    late = [Outcome(pool, endless(), until=time.monotonic() + 1) for _ in range(4)]
    assert Outcome(pool, short()).outcome()[0] == SchemaAnswer('"int"')
    for each in late:
        outcome = each.outcome()
        assert isinstance(outcome, RegistryError)
        assert (outcome.code, "too busy" in outcome.message) == (503, True)
    pool.close()


def test_what_took_too_long_is_refused_at_once_when_it_comes_again() -> None:
    pool = Pool(0.1)
    first = Outcome(pool, endless()).outcome()
    pool.close()  # So that none can answer.
    again = Outcome(pool, endless()).outcome()
    assert isinstance(first, RegistryError)
    assert isinstance(again, RegistryError)
    assert (again.code, again.message) == (first.code, first.message) == (422, "It takes too long")


def test_nobody_works_for_who_has_gone() -> None:
    pool = Pool(60, quick_s=300)
    gone = Outcome(pool, endless(), wanted=lambda: False)
    assert isinstance(Outcome(pool, short()).outcome(), Answered)
    assert gone.outcomes.empty()
    pool.close()


def test_writes_go_on_while_comparisons_take_as_long_as_they_may(tmp_path: Path) -> None:
    bounds = ("--compatibility-budget-s", "0.2", "--request-timeout-s", "120")
    running = Registry(tmp_path / "data", "--readers", "1", *bounds).wait()
    with httpx.Client(base_url=running.url, timeout=60) as client:
        kinds = {"schemaType": "JSON", "schema": unions("string")}
        client.post("/subjects/long/versions", json=kinds).raise_for_status()
    body = json.dumps({"schemaType": "JSON", "schema": unions("integer")}).encode()
    targets = ("/subjects/long/versions", "/compatibility/subjects/long/versions/latest")
    written = 0
    with ExitStack() as stack:
        quick = stack.enter_context(RawClient(running.port))
        slow = [stack.enter_context(RawClient(running.port, 120)) for _ in range(4)]
        for each, target in zip(slow, targets * 2, strict=True):
            each.send(post(target, body))
        while len(select.select([each.socket for each in slow], [], [], 0)[0]) < len(slow):
            schema = {"type": "record", "name": f"R{written}", "fields": []}
            reply = quick.send(
                post(f"/subjects/s{written}/versions", json.dumps({"schema": json.dumps(schema)}).encode())
            ).reply()
            assert reply.status == 200
            assert quick.send(get("/subjects")).reply().status == 200
            written += 1
        # At most five are written while they wait.
        assert written > 8, "writes waited for comparisons"
        for each in slow:
            reply = each.reply()
            assert (reply.status, json.loads(reply.body)["error_code"]) == (422, 422)
            assert b"takes too long" in reply.body
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


def test_a_large_version_is_registered_and_compared_beside_the_writer(tmp_path: Path) -> None:
    def fields(count: int) -> str:
        listed = [{"name": f"field_{n}", "type": "int", "default": 0} for n in range(count)]
        return json.dumps({"type": "record", "name": "Large", "fields": listed})

    running = Registry(tmp_path / "data", "--readers", "1").wait()
    with httpx.Client(base_url=running.url, timeout=60) as client:
        target = "/subjects/large/versions"
        for count in (8000, 8001, 8002):
            reply = client.post(target, json={"schema": fields(count)}).raise_for_status()
            assert reply.json()["schema"] == Parser().read(Source("AVRO", fields(count))).canonical
        narrower = fields(8003).replace(', "default": 0}]', "}]")
        refused = client.post(target, json={"schema": narrower})
        assert refused.status_code == 409
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.json()["message"]
        client.put("/config/large", json={"compatibility": "NONE", "normalize": True}).raise_for_status()
        again = client.post(target, json={"schema": fields(8001).replace(":", ": ")}).json()
        assert again["version"] == 2
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


def test_an_ordinary_burst_of_schemas_is_registered_by_a_node_that_has_just_started(tmp_path: Path) -> None:
    running = Registry(tmp_path / "data", "--readers", "1").wait()
    field = {"type": "string", "description": "some field of it"}
    fields = {f"field_{number}": field for number in range(75)}
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(running.port, 60)) for _ in range(50)]
        for number, each in enumerate(clients):
            text = json.dumps({"title": f"T{number}", "type": "object", "properties": fields})
            body = json.dumps({"schemaType": "JSON", "schema": text}).encode()
            assert len(body) > 5000
            each.send(post(f"/subjects/s{number}/versions", body))
        assert [each.reply().status for each in clients] == [200] * len(clients)
    assert running.stop() == 0, running.output


def test_any_thread_may_ask() -> None:
    pool = Pool()
    found: list[Any] = []

    def ask(number: int) -> None:
        found.append(Outcome(pool, short(f'{{"type":"record","name":"R{number}","fields":[]}}')).outcome())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({each.known.value for each in found}) == 8
    pool.close()


def test_a_write_that_waited_too_long_for_a_comparison_is_known_not_to_be_written(tmp_path: Path) -> None:
    bounds = ("--compatibility-budget-s", "20", "--request-timeout-s", "3")
    running = Registry(tmp_path / "data", "--readers", "1", *bounds).wait()
    with httpx.Client(base_url=running.url, timeout=60) as client:
        target = "/subjects/long/versions"
        first = {"schemaType": "JSON", "schema": unions("string")}
        # A worker process that has yet to start may take longer than a request does here.
        until(lambda: client.post(target, json=first).status_code == 200, 60, "the first version")
        reply = client.post(target, json={"schemaType": "JSON", "schema": unions("integer")})
        assert (reply.status_code, reply.json()["error_code"]) == (503, 503)
        assert client.get(target).json() == [1]
    assert running.stop() == 0, running.output
