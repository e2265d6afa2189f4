"""The worker process: answers queries one after another, each within its own time limit.

It exits at the end of its input. A query's limit counts this process' own CPU time, so a busy machine does
not change a result; the wall-clock limit only says when nobody waits for the answer any more.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType

from registry.base.processes.child_process import receive, send
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery, Source, answer
from registry.domain.schemas import Budget, Exhausted, Schema

from .worker import READY, Stuck, WorkRequest, WorkResult

_AGAIN_S = 1.0
# Memory for parsed schemas: some 5,000 versions of usual size, which transitive levels compare.
_PARSER_BYTES = 64 << 20


class _TooLongError(BaseException):
    """Raised when the work exceeds its limit; a BaseException, so that no error handler swallows it."""


class _LateError(BaseException):
    """Likewise for the wall-clock limit."""


def main() -> None:
    """Answer queries until the input ends; the argument is the nice value to add."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent decides when to end.
    _let_others_go_before(int(sys.argv[1]))
    queries, answers = sys.stdin.buffer, sys.stdout.buffer
    send(answers, READY)
    parser = Parser(_PARSER_BYTES)
    while (message := receive(queries)) is not None:
        asked: WorkRequest = pickle.loads(message)  # noqa: S301 (from our own parent)
        result = answer_query(asked, parser)
        if result.known is None or result.partial:
            parser = Parser(_PARSER_BYTES)  # Its state may be inconsistent.
        send(answers, pickle.dumps(result))


def _let_others_go_before(nice: int) -> None:
    """Lower the priority of this process as far as the machine permits; sandboxes may refuse."""
    with suppress(OSError):
        os.nice(nice)
    if sys.platform == "linux":
        with suppress(OSError):  # let processes that wake up run at once
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def answer_query(asked: WorkRequest, parser: Parser) -> WorkResult:
    """Answer a query with the schemas that ``parser`` remembers or parses."""
    try:
        with _limit_time(asked.wall_s, signal.ITIMER_REAL, signal.SIGALRM, _LateError):
            return _answer(asked, parser)
    except _LateError:
        signal.setitimer(signal.ITIMER_PROF, 0)  # if raised while that timer was disarmed
        return WorkResult(None, 0.0, late=True)


def _answer(asked: WorkRequest, parser: Parser) -> WorkResult:
    parts, took_s = asked.query.parts, 0.0
    found: dict[SchemaQuery, SchemaAnswer] = {}
    pairs = [(number, each) for number, each in enumerate(parts) if each.other is not None]
    stuck: Stuck | None = None
    try:
        with _working(asked.reading_s):
            for each in parts:
                if each.other is None:
                    found[each] = _answer_one(each, parser.read, Budget(math.inf))
            parsed = [each for _, each in pairs if each.needs_schemas]
            sources = {source for each in parsed for source in (each.source, each.other)}
            read = {source: _read(source, parser) for source in sources if source is not None}
        if pairs:
            began = time.process_time()
            with _working(asked.budget_s):
                for number, each in pairs:
                    stuck = Stuck(number, asked.budget_s - took_s)
                    found[each] = _answer_one(each, lambda source: read[source](), Budget(math.inf))
                    took_s = time.process_time() - began
    except (_TooLongError, MemoryError):
        # The answers found so far may suffice, as the first difference does; otherwise the budget is used up.
        if stuck is not None and stuck.part > pairs[0][0]:
            first = SchemaAnswer([found[each] for each in parts[: stuck.part]])
            return WorkResult(first, asked.budget_s, partial=True, stuck=stuck)
        return WorkResult(None, took_s, stuck=stuck)
    if asked.query.what == "several":
        return WorkResult(SchemaAnswer([found[each] for each in parts]), took_s)
    return WorkResult(found[asked.query], took_s)


def _answer_one(query: SchemaQuery, read: Callable[[Source], Schema], budget: Budget) -> SchemaAnswer:
    """Answer one query; an unexpected error becomes its answer and does not end the process."""
    try:
        return answer(query, read, budget)
    except MemoryError:
        raise
    except Exhausted:
        return SchemaAnswer(None, exhausted=True)
    except Exception:
        return SchemaAnswer(None, failure=traceback.format_exc())


def _read(source: Source, parser: Parser) -> Callable[[], Schema]:
    """Parse the schema now; the returned function returns it or raises the error."""
    try:
        schema = parser.read(source)
    except MemoryError:
        raise
    except Exception as error:
        failed = error

        def refuse() -> Schema:
            raise failed

        return refuse
    return lambda: schema


def _working(seconds: float) -> AbstractContextManager[None]:
    return _limit_time(seconds, signal.ITIMER_PROF, signal.SIGPROF, _TooLongError)


@contextmanager
def _limit_time(seconds: float, timer: int, number: int, raised: type[BaseException]) -> Iterator[None]:
    def over(number: int, frame: FrameType | None) -> None:
        raise raised

    signal.signal(number, over)
    # The timer repeats: Python only prints an exception that is raised inside a finalizer.
    signal.setitimer(timer, max(0.001, seconds), _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
