"""The process beside: it answers one query after another, each within a time of its own.

It ends with its input. What a query may take is a time of this process' own work, so that a busy machine
costs no verdict; the clock on the wall only says when nobody waits for the answer any more.
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

from registry.domain.parsing.parser import Parser
from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery, Source, answer
from registry.domain.schemas import Budget, Schema
from registry.processes.pipes import receive, send

from .messages import READY, Stuck, WorkRequest, WorkResult

_AGAIN_S = 1.0
# What a process may remember of schemas: some 5,000 versions of usual size, which transitive levels compare.
_PARSER_BYTES = 64 << 20


class _TooLongError(BaseException):
    """Raised wherever the work is by then; no handler of errors on the way may take it for one."""


class _LateError(BaseException):
    """Likewise, for the clock on the wall."""


def main() -> None:
    """Answer until the input ends; the argument says by how much whatever else there is to do goes before."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks says when to end
    _let_others_go_before(int(sys.argv[1]))
    queries, answers = sys.stdin.buffer, sys.stdout.buffer
    send(answers, READY)
    parser = Parser(_PARSER_BYTES)
    while (message := receive(queries)) is not None:
        asked: WorkRequest = pickle.loads(message)  # noqa: S301 (from our own parent)
        told = answered(asked, parser)
        if told.known is None or told.partial:
            parser = Parser(_PARSER_BYTES)  # it may have been left in the middle of something
        send(answers, pickle.dumps(told))


def _let_others_go_before(nice: int) -> None:
    """As far as the machine permits it: a sandbox need not."""
    with suppress(OSError):
        os.nice(nice)
    if sys.platform == "linux":
        with suppress(OSError):  # whoever wakes up meanwhile need not wait until this one has had its share
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def answered(asked: WorkRequest, parser: Parser) -> WorkResult:
    """Answer with what ``parser`` remembers and reads."""
    try:
        with _bounded(asked.wall_s, signal.ITIMER_REAL, signal.SIGALRM, _LateError):
            return _answered(asked, parser)
    except _LateError:
        signal.setitimer(signal.ITIMER_PROF, 0)  # where it was raised while the other one was being set aside
        return WorkResult(None, 0.0, late=True)


def _answered(asked: WorkRequest, parser: Parser) -> WorkResult:
    parts, took_s = asked.query.parts, 0.0
    found: dict[SchemaQuery, SchemaAnswer] = {}
    pairs = [(number, each) for number, each in enumerate(parts) if each.other is not None]
    stuck: Stuck | None = None
    try:
        with _working(asked.reading_s):
            for each in parts:
                if each.other is None:
                    found[each] = _known(each, parser.read, Budget())
            sources = {source for _, each in pairs for source in (each.source, each.other)}
            read = {source: _read(source, parser) for source in sources if source is not None}
        if pairs:
            began = time.process_time()
            with _working(asked.budget_s):
                for number, each in pairs:
                    stuck = Stuck(number, asked.budget_s - took_s)
                    found[each] = _known(each, lambda source: read[source](), Budget(math.inf))
                    took_s = time.process_time() - began
    except (_TooLongError, MemoryError):
        # What is known by then may do, as the first difference does; if not, the budget is used up.
        if stuck is not None and stuck.part > pairs[0][0]:
            first = SchemaAnswer([found[each] for each in parts[: stuck.part]])
            return WorkResult(first, asked.budget_s, partial=True, stuck=stuck)
        return WorkResult(None, took_s, stuck=stuck)
    if asked.query.what == "several":
        return WorkResult(SchemaAnswer([found[each] for each in parts]), took_s)
    return WorkResult(found[asked.query], took_s)


def _known(query: SchemaQuery, read: Callable[[Source], Schema], budget: Budget) -> SchemaAnswer:
    """Answer one query; an error that nobody expected is its answer too, and ends no process."""
    try:
        return answer(query, read, budget)
    except MemoryError:
        raise
    except Exception:
        return SchemaAnswer(None, failure=traceback.format_exc())


def _read(source: Source, parser: Parser) -> Callable[[], Schema]:
    """Read it now, and have what came of it told later."""
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
    return _bounded(seconds, signal.ITIMER_PROF, signal.SIGPROF, _TooLongError)


@contextmanager
def _bounded(seconds: float, timer: int, number: int, raised: type[BaseException]) -> Iterator[None]:
    def over(number: int, frame: FrameType | None) -> None:
        raise raised

    signal.signal(number, over)
    # Again and again: where it is raised while something is being thrown away, Python only prints it.
    signal.setitimer(timer, max(0.001, seconds), _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
