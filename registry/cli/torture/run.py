"""A run of the torture test: load, faults, time to settle, last reads, verdict, cleanup."""

from __future__ import annotations

import random
import secrets
import shlex
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import RegistryError, subject_path
from registry.cli.client.transport import Request

from .history import (
    DELETES,
    FINAL,
    PING,
    REGISTER,
    FailureKind,
    Fault,
    History,
    Operation,
    failure_kind,
)
from .laws import Violation, find_violations
from .load import Board, Client, Limits, Requests, read_everything

HOOK_S_MAX = 300.0
_LOOK_S = 0.2
_WORDS_OF_ERROR_MAX = 500
_NOT_FOUND = 404

Report = Callable[[str, int, int], None]


class HookFailed(Exception):
    """The command that injects faults failed; the text says how."""


class Plan(NamedTuple):
    """Everything that a user can say about a run."""

    limits: Limits
    clients: int
    seed: int
    prefix: str
    # How long addresses may take to answer after the load.
    settle_s: float
    # The command that is run with an address, and the mean time between its runs.
    hook: str
    every_s: float


class Verdict(NamedTuple):
    """Violations, and all evidence."""

    violations: list[Violation]
    operations: list[Operation]
    faults: list[Fault]
    # Subjects that could not be deleted.
    left: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """The number of acknowledged registrations, deletions, answered reads, and failed attempts.

        Answers that say that they may be stale are counted as reads, and apart.
        """
        done = Counter(_family(each) for each in self.operations if not each.is_failed and each.op != PING)
        declared = sum(each.stale for each in self.operations)
        return {**done, "stale": declared, "failed": sum(each.is_failed for each in self.operations)}

    @property
    def failures(self) -> list[tuple[FailureKind, int]]:
        """The kinds of failed attempts and their numbers, most frequent first."""
        kinds = Counter(filter(None, (failure_kind(each, self.faults) for each in self.operations)))
        return kinds.most_common()


def _family(operation: Operation) -> str:
    if operation.op == REGISTER:
        return "registrations"
    return "deletions" if operation.op in DELETES else "reads"


def own_prefix(prefix: str) -> str:
    """Return a prefix of subjects that nobody else uses."""
    return f"{prefix}{secrets.token_hex(4)}-"


def try_out(registry: RegistryClient, prefix: str) -> None:
    """Register a schema under one subject and delete it. Raises :class:`RegistryError` if that is refused."""
    subject = f"{prefix}probe"
    schema = '{"type":"record","name":"Probe","fields":[]}'
    try:
        registry.post(f"{subject_path(subject)}/versions", {"schema": schema})
    finally:
        _delete(registry, subject)


def torture(clients: Sequence[RegistryClient], plan: Plan, report: Report) -> Verdict:
    """Run the test on a registry with one client for each address.

    Raises :class:`HookFailed`. Whatever happens, the subjects of the run are deleted.
    """
    history = History()
    requests = Requests(clients, history)
    board = Board(plan.prefix)
    try:
        faults = _load(requests, board, plan, report)
        answering = _settle(requests, plan, report)
        _read_last(answering, board, plan, report)
        operations = history.operations()
    finally:
        left = _clean_up(clients, board, report)
    return Verdict(find_violations(operations, plan.limits.staleness_s), operations, faults, left)


def _load(requests: Requests, board: Board, plan: Plan, report: Report) -> list[Fault]:
    """Run clients and the hook until the time is over; return the runs of the hook."""
    stopped = threading.Event()
    clients = [
        Client(f"c{number}", requests, board, plan.limits, plan.seed) for number in range(plan.clients)
    ]
    hook = _Hook(plan, requests, stopped)
    with _threads(plan.clients + 1) as pool, _setting(stopped):
        running = [pool.submit(each.run, stopped) for each in clients]
        faults = pool.submit(hook.run)
        while not all(each.done() for each in running) and not faults.done():
            report("load", min(int(requests.now()), int(plan.limits.seconds)), int(plan.limits.seconds))
            stopped.wait(_LOOK_S)
        stopped.set()
        for each in (*running, faults):
            each.result()
    return hook.faults


@contextmanager
def _setting(event: threading.Event) -> Iterator[None]:
    """Set an event at the end of a block, so that the threads of a pool around it end too."""
    try:
        yield
    finally:
        event.set()


class _Hook:
    """Runs the command that injects faults, at random moments and for random addresses."""

    def __init__(self, plan: Plan, requests: Requests, stopped: threading.Event) -> None:
        self._words = shlex.split(plan.hook)
        self._every_s = plan.every_s
        self._requests = requests
        self._chance = random.Random(f"{plan.seed} hook")  # noqa: S311 - repeatable choices
        self._stopped = stopped
        self.faults: list[Fault] = []

    def run(self) -> None:
        """Run it again and again. Raises :class:`HookFailed`."""
        if not self._words:
            self._stopped.wait()
        while not self._stopped.wait(self._every_s * self._chance.uniform(0.5, 1.5)):
            address, began = self._chance.choice(self._requests.addresses), self._requests.now()
            self._once(address)
            self.faults.append(Fault(address, began, self._requests.now()))

    def _once(self, address: str) -> None:
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                [*self._words, address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=HOOK_S_MAX,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HookFailed(f"the hook failed for {address}: {error}") from None
        if done.returncode:
            said = done.stdout.decode(errors="replace").strip()[-_WORDS_OF_ERROR_MAX:]
            raise HookFailed(f"the hook failed for {address}: status {done.returncode}: {said}")


def _settle(requests: Requests, plan: Plan, report: Report) -> Requests:
    """Wait until every address answers and nothing may be stale; return the addresses that answer."""
    answering = []
    for number, address in enumerate(requests.addresses):
        report("settling", number, len(requests.addresses))
        if not requests.until_answered([address], PING, FINAL, plan.settle_s).is_failed:
            answering.append(address)
    if plan.limits.staleness_s:
        threading.Event().wait(plan.limits.staleness_s)
    report("settling", len(requests.addresses), len(requests.addresses))
    return requests.only(answering)


def _read_last(requests: Requests, board: Board, plan: Plan, report: Report) -> None:
    by_subject: dict[str, list[Operation]] = defaultdict(list)
    for each in requests.operations():
        if each.subject:
            by_subject[each.subject].append(each)
    with _threads(plan.clients) as pool:
        work = [
            pool.submit(read_everything, requests, subject, by_subject[subject], plan.limits.unavailable_s)
            for subject in sorted(board.subjects)
        ]
        _wait("last reads", work, report)


def _clean_up(clients: Sequence[RegistryClient], board: Board, report: Report) -> list[str]:
    """Delete all subjects for good; return those for which that failed."""

    def delete(subject: str) -> str:
        return "" if any(_delete(each, subject) for each in clients) else subject

    with _threads(len(clients) * 2) as pool:
        work = [pool.submit(delete, subject) for subject in sorted(board.subjects)]
        _wait("cleanup", work, report)
    return [each.result() for each in work if each.result()]


def _delete(registry: RegistryClient, subject: str) -> bool:
    """Delete a subject, softly and then for good; return true if it is gone."""
    try:
        registry.attempt(Request("DELETE", subject_path(subject)))
        answer = registry.attempt(Request("DELETE", subject_path(subject), {"permanent": True}))
    except RegistryError:
        return False
    return answer.is_success or answer.status == _NOT_FOUND


def _wait(step: str, work: Sequence[Future[Any]], report: Report) -> None:
    for number, each in enumerate(work):
        report(step, number, len(work))
        each.result()
    report(step, len(work), len(work))


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Run threads for a block; what has not begun when it fails is not done."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
