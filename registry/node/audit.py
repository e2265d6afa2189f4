"""The newest entries of the audit logs of all nodes, newest first, of those that are files.

Every node reads the end of its own file, so the work for a page is bounded on each, however long the files
are. What cannot be read back, standard output or a topic, is named instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from election.contract import Identity
from registry.audit.log import KAFKA, STDOUT
from registry.audit.tail import (
    AuditEntries,
    AuditEntry,
    AuditPage,
    AuditQuery,
    Destination,
    NodeAudit,
    Position,
    Rotated,
    read_tail,
)

_encode = msgspec.msgpack.Encoder().encode
_decode_query = msgspec.msgpack.Decoder(AuditQuery).decode


class _Part(msgspec.Struct, frozen=True):
    """The findings of one node."""

    destination: Destination
    page: AuditPage
    # Why its file cannot be read, or that the position is no longer valid; empty otherwise.
    problem: str = ""


_decode_part = msgspec.msgpack.Decoder(_Part).decode
_EMPTY: Final = AuditPage([])


class AuditTails:
    """Reads the audit logs of this host and of the other nodes; used on the event loop."""

    def __init__(self, destination: str, identity: Callable[[], Identity]) -> None:
        """``destination``: the setting ``audit_log``; ``identity`` returns that of this node."""
        self._setting = destination
        self._identity = identity
        # Asks the other nodes, by id; returns the URL of one; returns those without an answer and their URLs.
        # Set by who serves peers.
        self.ask_others: Callable[[bytes], Awaitable[dict[str, bytes | None]]] = _no_others
        self.url_of: Callable[[str], str] = str
        self.without_answer: Callable[[Mapping[str, object | None]], dict[str, str]] = lambda _: {}

    async def answer_peer(self, body: bytes) -> bytes:
        """Return what this node has found, for another one. Raises ``msgspec.DecodeError``."""
        return _encode(await self._find(_decode_query(body)))

    async def entries(self, query: AuditQuery) -> AuditEntries:
        """Return the entries of all nodes."""
        own, others = await asyncio.gather(self._find(query), self.ask_others(_encode(query)))
        found = {node: _read(body) for node, body in others.items()}
        here = self._identity()
        parts = {here.node: own, **{node: each for node, each in found.items() if each is not None}}
        silent = self.without_answer(found)
        together = _union_of(
            parts, query, sorted({*silent.values()}),
            lambda node: here.url if node == here.node else self.url_of(node),
        )  # fmt: skip
        if together.rest:  # they are asked again; not for ever, once the others have nothing older
            begun = query.positions
            together.rest.update({node: begun.get(node) for node in silent if not begun or node in begun})
        return together

    async def _find(self, query: AuditQuery) -> _Part:
        destination, node = _destination_of(self._setting), self._identity().node
        if destination.kind != "file" or (query.positions and node not in query.positions):
            return _Part(destination, _EMPTY)  # nothing can be read, or nothing older is there
        path, begin = Path(self._setting), query.positions.get(node)
        try:
            page = await asyncio.to_thread(read_tail, path, query.wanted, query.limit, begin)
        except FileNotFoundError:
            return _Part(destination, _EMPTY)
        except Rotated:
            return _Part(destination, _EMPTY, "the file was rotated meanwhile")
        except OSError as error:
            return _Part(destination, _EMPTY, f"the file cannot be read: {error.strerror or error}")
        return _Part(destination, page)


def _destination_of(setting: str) -> Destination:
    if setting.startswith(KAFKA):
        return Destination("topic", setting.removeprefix(KAFKA))
    return Destination({"": "none", STDOUT: "stdout"}.get(setting, "file"))


def _union_of(
    parts: dict[str, _Part], query: AuditQuery, missing: list[str], url_of: Callable[[str], str]
) -> AuditEntries:
    """Unite the parts; entries before which a node may have others, not looked at yet, are left for later."""
    horizon = max((each.page.oldest for each in parts.values() if each.page.rest is not None), default="")
    found = sorted(
        ((entry.time, node, at, entry) for node, part in parts.items()
         for at, entry in enumerate(part.page.entries) if entry.time >= horizon),
        key=lambda each: (each[0], each[1], -each[2]), reverse=True,
    )[: query.limit]  # fmt: skip
    taken: dict[str, AuditEntry] = {}
    counts: dict[str, int] = {}
    for _, node, _, entry in found:
        taken[node], counts[node] = entry, counts.get(node, 0) + 1
    rest: dict[str, Position | None] = {}
    for node, part in parts.items():
        all_taken = counts.get(node, 0) == len(part.page.entries)
        left = taken[node].position if node in taken else part.page.begin
        next_position = part.page.rest if all_taken else left
        if next_position is not None:
            rest[node] = next_position
    nodes = [
        NodeAudit(url_of(node), *part.destination, part.page.oldest or None, part.problem)
        for node, part in parts.items()
    ]
    return AuditEntries(
        entries=[{"node": url_of(node), **entry.members} for _, node, _, entry in found],
        rest=rest,
        nodes=sorted(nodes, key=lambda each: each.node),
        missing=missing,
    )


def _read(body: bytes | None) -> _Part | None:
    try:
        return None if body is None else _decode_part(body)
    except msgspec.DecodeError:
        return None


async def _no_others(_: bytes) -> dict[str, bytes | None]:
    return {}
