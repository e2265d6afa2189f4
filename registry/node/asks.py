"""The counts of who asks for schemas: those of this host's readers, kept for days, and of the other nodes.

The counts lie in a SQLite file next to the store. They belong to this node: they are no part of the log, of
snapshots or backups, and nothing but the answers about them depends on the file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

import msgspec

from registry.api.asks import (
    NO_VERSION,
    Ask,
    Asker,
    Askers,
    AskersOf,
    Asks,
    LocalAsks,
    Thing,
    of_guid,
    of_id,
    of_subject,
    subject_of,
)
from registry.domain.errors import UNAVAILABLE
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.scope import resolve_alias
from registry.domain.rows.view import View
from registry.host import stop_budget

if TYPE_CHECKING:
    from .ask_store import AskStore

FILE: Final = "asks.db"
# Versions of a subject that are looked for, the newest.
VERSIONS_MAX: Final = 10_000
# Calls that wait for the thread: more than readers and other nodes make while the disk is well.
_WAITING_MAX: Final = 100
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_encode = msgspec.msgpack.Encoder().encode
_decode_names = msgspec.msgpack.Decoder(list[str]).decode
_decode_local = msgspec.msgpack.Decoder(LocalAsks | None).decode


class Asking:
    """Keeps and finds who asks, for a node; used on its event loop.

    SQLite has a thread of its own, so that a disk that hangs holds up nothing else.
    """

    def __init__(
        self, folder: Path, keep_days: int, view: Callable[[], AbstractContextManager[View]]
    ) -> None:
        """Keep counts in a ``folder`` for some days, 0: none. ``view`` returns the rows, from any thread."""
        self._path = folder / FILE
        self._keep_days = keep_days
        self._view = view
        self._thread = ThreadPoolExecutor(1, "asks")
        self._waiting, self._closed = 0, False
        self._opened: AskStore | None = None
        # Asks the other nodes, by id; returns those without an answer, with URLs. Set by who serves peers.
        self.ask_others: Callable[[bytes], Awaitable[dict[str, bytes | None]]] = _no_others
        self.without_answer: Callable[[Mapping[str, object | None]], dict[str, str]] = lambda _: {}

    @property
    def other(self) -> int:
        """Number of requests since the start that were not counted by asker and thing."""
        return 0 if self._opened is None else self._opened.other

    def start(self) -> None:
        """Remove what was counted before, if nothing is counted any more."""
        if not self._keep_days and self._path.exists():
            from .ask_store import remove  # noqa: PLC0415 (as below)

            try:
                remove(self._path)
            except OSError as error:
                _log.warning("cannot remove %s, which is no longer needed: %s", self._path, error)

    def close(self) -> None:
        """Take nothing more, and close the file; blocks for a moment if the thread is not done."""
        if not self._closed:
            self._closed = True
            closing = self._thread.submit(self._close)
            self._thread.shutdown(wait=False)
            with suppress(TimeoutError):
                closing.result(stop_budget.END_S)

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    async def add(self, asks: Asks) -> None:
        """Add what a reader has counted; a request for an alias counts for its subject. Raises 503."""
        if self._keep_days:
            await self._in_thread(lambda: self._store().add(self._without_aliases(asks)))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._closed or self._waiting >= _WAITING_MAX:
            raise UNAVAILABLE(f"{FILE} is not written or read")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    def _without_aliases(self, asks: Asks) -> Asks:
        with self._view() as view:
            return msgspec.structs.replace(asks, asks=list(_without_aliases(view, asks.asks)))

    async def answer_peer(self, body: bytes) -> bytes:
        """Return what this node has counted, for another one. Raises ``msgspec.DecodeError``, 503."""
        names = _decode_names(body)
        return _encode(await self._find(names) if self._keep_days else None)

    async def askers(self, request: AskersOf) -> Askers:
        """Return who has asked, on all nodes. Raises 503 if this node cannot read its own counts."""
        if not self._keep_days:
            return Askers(asks=[], since=None)
        wanted = await self._in_thread(lambda: self._names_of(request))
        names = list(wanted)
        own, others = await asyncio.gather(self._find(names), self.ask_others(_encode(names)))
        found = {node: _decode_part(body) for node, body in others.items()}
        parts = [own, *(each for each in found.values() if each is not None)]
        return Askers(
            asks=_together(parts, wanted),
            since=max(each.since for each in parts),
            other=sum(each.other for each in parts),
            more=sum(each.more for each in parts),
            missing=sorted({*self.without_answer(found).values()}),
        )

    async def _find(self, names: list[str]) -> LocalAsks:
        return await self._in_thread(lambda: self._store().find(names))

    def _store(self) -> AskStore:
        if self._opened is None:
            from .ask_store import AskStore  # noqa: PLC0415 (SQLite would slow down the start)

            self._opened = AskStore(self._path, self._keep_days)
        return self._opened

    def _names_of(self, request: AskersOf) -> Wanted:
        with self._view() as view:
            return wanted_names(view, request)


def _without_aliases(view: View, asks: Iterable[Ask]) -> Iterator[Ask]:
    """Yield asks with the subjects that their names stand for; the readers, which count, see no rows."""
    known: dict[str, str] = {}
    for ask in asks:
        name = ask.thing.name
        if name not in known:
            subject = subject_of(name)
            known[name] = name if subject is None else of_subject(resolve_alias(view, subject))
        yield msgspec.structs.replace(ask, thing=ask.thing._replace(name=known[name]))


async def _no_others(_: bytes) -> dict[str, bytes | None]:
    return {}


# By the names of things: for a subject, the versions that count (``None``: all); for an id or guid, the
# version that has it.
Wanted = dict[str, int | set[int] | None]


def wanted_names(view: View, request: AskersOf) -> Wanted:
    """Return the names by which a subject, or a schema by its id, can have been asked for."""
    wanted: Wanted = {}
    if request.subject:
        subject = Subject.parse(request.subject)
        wanted[of_subject(subject)] = None
        newest_first = versions.versions(view, subject, deleted=True, newest_first=True)
        for each in islice(newest_first, VERSIONS_MAX):
            wanted.setdefault(of_id(subject.context, each.row.schema_id), each.version)
            wanted.setdefault(of_guid(UUID(bytes=each.row.md5)), each.version)
        return wanted
    wanted[of_id(request.context, request.schema_id)] = NO_VERSION
    for each in islice(versions.of_id(view, request.context, request.schema_id), VERSIONS_MAX):
        wanted[of_guid(UUID(bytes=each.row.md5))] = NO_VERSION
        numbers = wanted.setdefault(of_subject(each.subject), set())
        assert isinstance(numbers, set)
        numbers.add(each.version)
    return wanted


def _together(parts: Iterable[LocalAsks], wanted: Wanted) -> list[Ask]:
    """Return the asks of all nodes, one for each asker and version."""
    found: dict[tuple[Asker, int], Ask] = {}
    for ask in chain.from_iterable(each.asks for each in parts):
        known = wanted.get(ask.thing.name, NO_VERSION)
        if isinstance(known, set):
            if ask.thing.version not in known:
                continue
            known = NO_VERSION
        key = ask.asker, ask.thing.version if known is None else known
        old = found.get(key)
        first, last, requests = ask.first, ask.last, ask.requests
        if old is not None:
            first, last, requests = min(first, old.first), max(last, old.last), requests + old.requests
        found[key] = Ask(ask.asker, Thing("", key[1]), first, last, requests)
    return sorted(found.values(), key=lambda each: (-each.last, each.asker, each.thing))


def _decode_part(body: bytes | None) -> LocalAsks | None:
    """Return what another node has counted; ``None`` if it did not say, or counts nothing."""
    try:
        return None if body is None else _decode_local(body)
    except msgspec.DecodeError:
        return None
