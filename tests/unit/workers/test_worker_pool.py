"""Schema queries for worker processes when something goes wrong, and when they are retried."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Queue
from typing import Any

import pytest

from registry.base.processes.child_process import module_command
from registry.domain.errors import RegistryError
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery, Source, facts, several
from registry.domain.schemas import FORMATS, Dependency
from registry.domain.schemas.avro.format import AvroFormat, AvroSchema
from registry.workers import work_queue, worker
from registry.workers.pool import WAITING_MAX, Answered, Pool
from registry.workers.process import answer_query
from registry.workers.worker import Stuck, WorkRequest, WorkResult

INT, LONG, STRING = (Source("AVRO", f'"{name}"') for name in ("int", "long", "string"))
HOW = (("reader_is", "new"),)
QUICK, SLOW = SchemaQuery("differences", LONG, INT, HOW), SchemaQuery("differences", STRING, INT, HOW)
BUDGET_S = 5.0
KNOWN = WorkResult(SchemaAnswer("said"), 0.1)
# The message of a process if the first of two comparisons is quick and the second one endless.
STUCK = WorkResult(SchemaAnswer([SchemaAnswer([])]), BUDGET_S, partial=True, stuck=Stuck(1, BUDGET_S - 0.01))


class Beside:
    """Stands in for a process: it returns what the test puts there."""

    def __init__(self) -> None:
        self.asked: Queue[WorkRequest] = Queue()
        self.told: Queue[WorkResult | Exception] = Queue()

    def __call__(self, nice: int) -> Beside:
        assert nice > 0
        return self

    def ask(self, asked: WorkRequest) -> WorkResult:
        self.asked.put(asked)
        told = self.told.get(timeout=60)
        if isinstance(told, Exception):
            raise told
        return told

    def kill(self) -> None:
        self.told.put(worker.Ended("killed"))

    def end(self) -> None:
        pass


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    beside = Beside()
    monkeypatch.setattr(work_queue, "WorkerProcess", beside)
    return beside


@pytest.fixture
def pool(beside: Beside) -> Iterator[Pool]:
    pool = Pool(BUDGET_S, quick_s=1000)
    yield pool
    pool.close()


def ask(pool: Pool, question: SchemaQuery = QUICK, **options: Any) -> Queue[Answered | RegistryError]:
    outcomes: Queue[Answered | RegistryError] = Queue()
    pool.ask(Unanswered(question, "It takes too long"), outcomes.put, **options)
    return outcomes


def outcome(pool: Pool, question: SchemaQuery = QUICK, **options: Any) -> Answered | int:
    """Return the answer, or the code of the refusal."""
    said = ask(pool, question, **options).get(timeout=60)
    return said.code if isinstance(said, RegistryError) else said


def test_what_nobody_wants_any_more_takes_no_room(pool: Pool, beside: Beside) -> None:
    here = threading.Event()
    here.set()
    gone = [ask(pool, wanted=here.is_set) for _ in range(WAITING_MAX + 1)]
    here.clear()
    last = ask(pool, SLOW)
    beside.told.put(KNOWN)  # To the one that was in progress.
    beside.told.put(KNOWN)
    assert last.get(timeout=60) == Answered(SchemaAnswer("said"), 0.1)
    assert all(each.empty() for each in gone[1:-1])


def test_what_waits_in_vain_is_reported_when_there_is_no_room(pool: Pool, beside: Beside) -> None:
    ask(pool)
    beside.asked.get(timeout=60)
    late = [ask(pool, until=time.monotonic()) for _ in range(WAITING_MAX)]
    last = ask(pool, SLOW)
    for each in late:
        said = each.get_nowait()
        assert isinstance(said, RegistryError)
        assert (said.code, "too busy" in said.message) == (503, True)
    assert last.empty()


def test_processes_answer_where_nobody_may_change_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = """
import os, runpy
def refuse(*_):
    raise PermissionError("not here")
os.nice = os.sched_setscheduler = refuse
runpy.run_module("registry.workers.process", run_name="__main__")
"""
    _, environment = module_command("registry.workers.process")
    command = [sys.executable, "-P", "-c", sandbox, "3"]
    monkeypatch.setattr(worker, "module_command", lambda *_: (command, environment))
    pool = Pool()
    said = outcome(pool, SchemaQuery("canonical", INT))
    assert isinstance(said, Answered)
    assert said.known.value == '"int"'
    pool.close()


def test_a_process_reports_which_comparison_took_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(question: SchemaQuery, *_: Any) -> SchemaAnswer:
        if question == SLOW:
            raise MemoryError
        return SchemaAnswer([])

    monkeypatch.setattr("registry.workers.process.answer", compare)
    told = answer_query(WorkRequest(several([SchemaQuery("canonical", INT), QUICK, SLOW]), 60, 60), Parser())
    assert (told.known, told.partial, told.took_s) == (SchemaAnswer([SchemaAnswer([])] * 2), True, 60)
    assert told.stuck is not None
    assert told.stuck.part == 2
    alone = answer_query(WorkRequest(SLOW, 60, 60), Parser())
    assert (alone.known, alone.stuck) == (None, Stuck(0, 60))


class Failing(AvroFormat):
    """A format that was never tried on some text."""

    def parse(self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False) -> AvroSchema:
        if "unheard" in text:
            raise KeyError(text)
        if "undecodable" in text:
            raise UnicodeError(text)
        return super().parse(text, dependencies, new=new)


@pytest.mark.parametrize("text", ["unheard", "undecodable"])
def test_a_text_that_breaks_a_reader_fails_its_own_questions_only(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setitem(FORMATS, "FAILING", Failing())
    int_, broken = Source("FAILING", '"int"'), Source("FAILING", text)
    good = [SchemaQuery("canonical", int_), SchemaQuery("differences", int_, int_, HOW)]
    bad = [SchemaQuery("fingerprints", broken), SchemaQuery("differences", int_, broken, HOW)]
    told = answer_query(WorkRequest(several([*good, *bad]), 60, 60), Parser())

    assert told.known is not None
    assert [each.value for each in told.known.value] == ['"int"', [], None, None]
    assert all(text in each for each in told.failures())
    assert len(told.failures()) == len(bad)
    for each in bad:
        with pytest.raises(RegistryError, match="Internal Server Error"):
            facts(several([*good, *bad]), told.known)[each].result()


def test_a_question_that_failed_is_answered_and_logged(
    pool: Pool, beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    failed = SchemaAnswer(None, failure="KeyError: 'unheard'")
    beside.told.put(WorkResult(failed, 0.1))
    assert outcome(pool) == Answered(failed, 0.1)
    assert "KeyError: 'unheard'" in caplog.text
    assert beside.asked.qsize() == 1


@pytest.mark.parametrize("again", [several([QUICK, SLOW]), SLOW], ids=["all", "what is not known yet"])
def test_what_took_too_long_after_something_quick_is_not_tried_again(
    pool: Pool, beside: Beside, again: SchemaQuery
) -> None:
    beside.told.put(STUCK)
    first = outcome(pool, several([QUICK, SLOW]))
    assert isinstance(first, Answered)
    assert outcome(pool, SLOW, spent_s=first.took_s) == 422
    pool.close()  # So that none could answer.
    assert outcome(pool, again) == (422 if again == SLOW else first)
    assert outcome(pool, again, spent_s=BUDGET_S) == 422


def test_what_had_little_time_left_is_tried_again_with_more(pool: Pool, beside: Beside) -> None:
    beside.told.put(STUCK._replace(stuck=Stuck(1, 1.0)))
    outcome(pool, several([QUICK, SLOW]))
    assert outcome(pool, SLOW, spent_s=BUDGET_S - 1) == 422
    beside.told.put(KNOWN)
    assert outcome(pool, SLOW) == Answered(SchemaAnswer("said"), 0.1)


def test_a_machine_without_threads_costs_one_answer_only(
    pool: Pool, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        assert outcome(pool) == 503
    beside.told.put(KNOWN)
    assert outcome(pool) == Answered(SchemaAnswer("said"), 0.1)


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("where", ["done", "wanted"])
def test_a_client_that_fails_costs_the_others_nothing(
    pool: Pool, beside: Beside, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    fail = failing(RuntimeError("Event loop is closed"))
    hold = ask(pool, SLOW)
    beside.asked.get(timeout=60)
    broken = partial(pool.ask, Unanswered(QUICK))
    if where == "done":
        broken(fail)
        beside.told.put(KNOWN)
    else:
        broken(lambda _: None, wanted=fail)
    last = ask(pool)
    for _ in range(2):
        beside.told.put(KNOWN)
    assert hold.get(timeout=60) == last.get(timeout=60) == Answered(SchemaAnswer("said"), 0.1)
    assert "Event loop is closed" in caplog.text


def test_what_nobody_expected_of_a_process_is_logged_and_it_is_replaced(
    pool: Pool, beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    beside.told.put(ValueError("no pickle"))
    beside.told.put(KNOWN)
    assert outcome(pool) == Answered(SchemaAnswer("said"), 0.1)
    assert "ValueError: no pickle" in caplog.text
    for _ in range(2):
        beside.told.put(ValueError("no pickle"))
    assert outcome(pool) == 503
