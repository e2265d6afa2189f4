"""Requests that reach a node while it starts: they wait until it has its rows."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from registry.domain.commands import DeleteSubject, Done, Outcome, Refused
from registry.domain.errors import FORWARD_FAILED, NOT_STARTED, RegistryError
from registry.domain.log_format import records, values
from registry.domain.log_format.lineage import Mismatch
from registry.domain.log_format.records import Entry
from registry.domain.model import Subject
from registry.domain.pending_command import PendingCommand
from registry.ipc.messages import State
from registry.log.embedded.log import EmbeddedLog
from registry.node.command_router import CommandRouter
from registry.node.ipc_server import QUICK_S
from registry.reader.backend import ReaderBackend
from registry.reader.main import NODE_FIRST_WAIT_S
from registry.store.open import open_store
from registry.store.reader import StoreReader
from tests.support.pending import pending
from tests.support.running import PATIENT, Registry, until, until_async

RECORDS = 1_000
STARTS = 8
OPENED = re.compile(r"log and store opened in ([\d.]+) s")
WAIT_S, SHORT_S = 30.0, 0.01
COMMAND = DeleteSubject("s")
DONE = Done(b"[]", 1)


def written_log(data: Path) -> None:
    """Make a log whose records no store holds yet."""
    log = EmbeddedLog(data / "log")
    entries = []
    for number in range(1, RECORDS + 1):
        subject = Subject(".", f"s{number}")
        text = f'{{"type":"record","name":"R{number}","fields":[]}}'
        entries.append(Entry(records.schema_key(subject, 1), values.schema_value(subject, 1, number, text)))
    log.append(entries)
    log.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("GET", f"/schemas/ids/{RECORDS}", None, id="read"),
        pytest.param("POST", "/subjects/new/versions", {"schema": '"string"'}, id="write"),
    ],
)
def test_the_first_answer_of_a_node_that_reads_its_log_is_no_refusal(
    tmp_path: Path, method: str, path: str, body: object
) -> None:
    """One that is slow, as on a busy machine, may answer with 503; then others are started."""

    def answer(url: str) -> httpx.Response | None:
        try:
            return httpx.request(method, url + path, json=body, timeout=PATIENT)
        except httpx.TransportError:
            return None

    def answers_at_once(data: Path) -> bool:
        written_log(data)
        began = time.monotonic()
        registry = Registry(data, "--readers", "1")
        try:
            first: httpx.Response = until(lambda: answer(registry.url), WAIT_S, "an answer")
            took_s = time.monotonic() - began
            opened = until(lambda: OPENED.search(registry.output), WAIT_S, "the log and store to be opened")
            is_slow = took_s > NODE_FIRST_WAIT_S or float(opened[1]) > QUICK_S
            assert first.status_code == 200 or is_slow, first.text
        finally:
            registry.stop()
        return first.status_code == 200

    assert any(answers_at_once(tmp_path / str(start)) for start in range(STARTS))


@pytest.mark.parametrize("state", [State(False, readable=True), State(False, opening=True), State(True)])
def test_a_reader_serves_once_there_are_rows_or_it_takes_a_while(tmp_path: Path, state: State) -> None:
    async def try_it() -> None:
        backend = ReaderBackend(StoreReader(tmp_path), cluster=False)
        backend.on_state(State(started=False))
        assert not backend.node_known.is_set()
        backend.on_state(state)
        assert backend.node_known.is_set()

    asyncio.run(try_it())


def test_a_reader_serves_no_rows_before_it_is_known_whose_they_are(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path, "cluster/topic/id", 0, map_bytes=64 << 20)
    store.complete()
    store.close()
    found = Mismatch("the topic was made anew")

    def answers(backend: ReaderBackend) -> bool:
        try:
            with backend.view() as view:
                return view.get(b"missing") is None
        except RegistryError:
            return False

    async def try_it() -> None:
        backend = ReaderBackend(StoreReader(tmp_path), cluster=True)
        for state in (State(False), State(False, opening=True)):
            backend.on_state(state)
            assert not answers(backend)
            with pytest.raises(RegistryError):
                backend.newer_view(None)
        backend.on_state(State(False, opening=True, examined=True))
        assert answers(backend)
        with backend.undoubted_view() as view:
            moment = view.moment
        assert backend.newer_view(moment) is None
        # A finding that could not be written into the store counts too, and only another one ends it.
        for state in (State(True, mismatch=found), State(False, opening=True)):
            backend.on_state(state)
            # Answers that a reader has at hand are in doubt from this moment on.
            with pytest.raises(RegistryError, match="the topic was made anew"):
                backend.newer_view(moment)
            assert answers(backend)
            assert backend.mismatch == found
            with pytest.raises(RegistryError, match="the topic was made anew"):
                backend.undoubted_view()
        backend.on_state(State(True, mismatch=Mismatch("another cluster", served=False)))
        assert not answers(backend)
        backend.on_state(State(True))
        with backend.undoubted_view() as view:
            assert view.applied() == 0
        assert backend.newer_view(moment) is None

    asyncio.run(try_it())


class Node:
    """The requests that reach a node itself: whether it has started, and commands to decide."""

    def __init__(self) -> None:
        self.is_started = False
        self.following = SimpleNamespace(foreign="")
        self.begun: Callable[[], None]

    def when_started(self, call: Callable[[], None]) -> None:
        self.begun = call

    def submit(self, pending: PendingCommand) -> None:
        pending.reply(DONE)


def test_writes_wait_for_a_node_alone_that_reads_its_log() -> None:
    async def try_it() -> None:
        node, outcomes = Node(), list[Outcome]()
        router = CommandRouter(cast("Any", node))
        now = asyncio.get_running_loop().time()
        router.submit(pending(COMMAND, outcomes.append, deadline=now + SHORT_S))
        await until_async(lambda: outcomes, "what waited for its whole time to be refused")
        assert isinstance(outcomes[0], Refused)
        assert outcomes.pop().code == NOT_STARTED.code
        router.submit(pending(COMMAND, outcomes.append, deadline=now + WAIT_S))
        assert outcomes == []
        node.is_started = True
        node.begun()
        assert outcomes == [DONE]

    asyncio.run(try_it())


def test_writes_that_no_node_has_seen_when_it_stops_are_known_to_be_undone() -> None:
    async def try_it() -> None:
        node, outcomes = Node(), list[Outcome]()
        router = CommandRouter(cast("Any", node))
        deadline = asyncio.get_running_loop().time() + WAIT_S
        router.submit(pending(COMMAND, outcomes.append, deadline=deadline))
        await router.give_up()
        router.submit(pending(COMMAND, outcomes.append, deadline=deadline))
        node.is_started = True
        node.begun()
        codes = [each.code for each in outcomes if isinstance(each, Refused)]
        assert codes == [FORWARD_FAILED.code] * 2, outcomes

    asyncio.run(try_it())
