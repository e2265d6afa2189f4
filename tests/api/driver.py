"""A whole registry in this process: the API over a log that is a list, rows that are a dict, and a writer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple, Self

import orjson
from starlette.types import Message

from registry.api.app import create_app
from registry.api.asks import Askers
from registry.api.backend import ApiSettings, ClusterStatus, NodeQuery, NodeReport, NodeStatus
from registry.api.node_queries import ASKERS, AUDIT, CLUSTER, DELETE_SNAPSHOT, SNAPSHOTS
from registry.audit.tail import AuditEntries
from registry.domain.commands import (
    AskWebhooks,
    Command,
    Done,
    Outcome,
    PingWebhook,
    Refused,
    RequestSnapshot,
    refusal,
)
from registry.domain.decide import decide
from registry.domain.decide.ids import Ids
from registry.domain.decide.own_records import newest_marker
from registry.domain.errors import (
    BAD_REQUEST,
    EVENTS_DELETED,
    NOT_OF_THE_LOG,
    SNAPSHOT_NOT_FOUND,
    WEBHOOK_NOT_FOUND,
    RegistryError,
)
from registry.domain.events import encode_event, event_of
from registry.domain.fold.fold import apply
from registry.domain.history.entries import slice_of
from registry.domain.history.moment import CONTEXTS, Moment, OwnerRows, plain_owners, rows_of
from registry.domain.log_format import webhooks as stored
from registry.domain.log_format.headers import requested_by
from registry.domain.log_format.lineage import Mismatch
from registry.domain.log_format.records import Record
from registry.domain.lookup.duplicates import find_groups
from registry.domain.parsing.parser import Parser
from registry.domain.pending_command import NO_ORIGIN, Origin
from registry.domain.queries.sensitive_metadata import Cipher, encrypt_entries, plain_view
from registry.domain.queries.walks import run_search
from registry.domain.rows import digest
from registry.domain.rows.layout import CONTEXT
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import History, Span, View, scan
from registry.duplicates.contract import SearchRequest, answer_of
from registry.feed.contract import Page
from registry.node.webhooks.delivery import Progress
from registry.security.authorization.permitted_view import PermittedView
from registry.store.views import ProvenView
from snapshots.catalogue.catalogue import Entry

Headers = Mapping[str, str] | Sequence[tuple[str, str]]

FIRST_TS = 1_700_000_000_000


class ListHistory(DictView):
    """The history of a log in memory, from an offset on; ``filling``: below it, it is not known yet."""

    def __init__(self, log: Sequence[Record], begin: int = 0, *, filling: bool = False) -> None:
        part = slice_of(begin, log[begin:], len(log))
        super().__init__(part.entries)
        low = begin if filling else 0
        self._found = (Span(low, begin, len(log)),) if len(log) > low else ()
        self._applied = len(log)

    def spans(self) -> tuple[Span, ...]:
        return self._found

    def applied(self) -> int:
        return self._applied


class ListBackend:
    """Decides, appends and folds immediately."""

    def __init__(
        self, settings: ApiSettings | None = None, *, first_ts: int = FIRST_TS, cipher: Cipher | None = None
    ) -> None:
        self.first_ts = first_ts
        self.cipher = cipher
        self.settings = settings or ApiSettings()
        self.rows = _Rows(self)
        self.log: list[Record] = []
        self.submitted: list[Command] = []
        self.confirmed = 0
        self.fresh = True  # False: the read barrier fails.
        self.stuck = False  # True: it never answers.
        # Set: the rows are those of another log, as far as this says.
        self.mismatch: Mismatch | None = None
        # Records that the log holds but the rows do not, until they are confirmed.
        self.behind: list[Record] = []
        # The change feed begins with this offset.
        self.deleted_before = 0
        self.origins: list[Origin] = []
        self.ids = Ids()
        self.parser = Parser()
        self.reasons: list[str] = []
        # Why writes cannot be carried out.
        self.unwritable: list[str] = []
        # Owners whose past rows were asked for.
        self.asked_past: list[bytes] = []
        # From here on nothing is missing in the history, and if it is still read from the log.
        self.history_from, self.filling = 0, False
        # Answers to further queries of the node, by their numbers.
        self.answers: dict[int, Any] = {}
        # The catalogue's snapshots, newest first.
        self.entries: dict[str, Entry] = {}

    @contextmanager
    def view(self) -> Iterator[View]:
        if self.mismatch is None:
            yield plain_view(self.rows, self.cipher)
        elif self.mismatch.served:
            yield plain_view(ProvenView(self.rows, self.mismatch), self.cipher)
        else:
            raise NOT_OF_THE_LOG(self.mismatch.reason)

    def history(self) -> History | None:
        return ListHistory(self.log, self.history_from, filling=self.filling)

    async def submit(self, command: Command, origin: Origin = NO_ORIGIN) -> Outcome:
        if self.mismatch is not None:  # as the node does
            raise NOT_OF_THE_LOG(self.mismatch.reason)
        self.submitted.append(command)
        self.origins.append(origin)
        self.follow()
        if isinstance(command, AskWebhooks | PingWebhook):
            return self._about_webhooks(command)
        try:
            seen = plain_view(self.rows, self.cipher)
            given = self.settings.defaults
            now = given.now or time.time_ns() // 1_000_000
            defaults = replace(given, checked=origin.checked, condition=origin.condition, now=now)
            decision = self.parser.run(decide(seen, command, self.ids, defaults, self.parser.memory))
            entries = encrypt_entries(decision.entries, self.rows, self.cipher)
            entries = requested_by(origin.principal.name, entries, 1 << 30)
        except RegistryError as error:
            return refusal(error)
        for entry in entries:
            self.append(*entry)
        if isinstance(command, RequestSnapshot):
            return Done(self.announced().dumps(), len(self.log))
        return Done(decision.reply, len(self.log))

    def _about_webhooks(self, command: AskWebhooks | PingWebhook) -> Outcome:
        """Answer as a primary that has delivered nothing and whose receivers cannot be reached."""
        found = [each for each in stored.webhooks(self.rows) if command.name in ("", each.name)]
        if command.name and not found:
            error = WEBHOOK_NOT_FOUND(command.name)
            return Refused(error.code, error.message)
        entities = [
            stored.webhook_members(each)
            | Progress().members(each, stored.position(self.rows, each), lag=0, unsigned="")
            for each in found
        ]
        reply: Any = entities[0] if command.name else entities
        if isinstance(command, PingWebhook):
            reply = {"delivered": False, "status": None, "error": "refused", "took_ms": 1}
        return Done(orjson.dumps(reply), len(self.log))

    def announced(self) -> Entry:
        """Return the entry of the newest marker, as a node makes it."""
        marker = newest_marker(self.rows)
        assert marker is not None
        entry = Entry(
            id=f"s{marker.end}", state="requested", log="log-1", offset=marker.end, uri="/snapshots",
            requested_ms=marker.ts, updated_ms=marker.ts,
        )  # fmt: skip
        self.entries = {entry.id: entry, **self.entries}
        return entry

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        """Fold the log up to the moment."""
        if moment.offset is not None and moment.offset >= len(self.log):
            raise BAD_REQUEST("atOffset is beyond the log")
        if moment.offset is None:
            part = list(takewhile(lambda each: each.ts <= moment.time_ms, self.log))
        else:
            part = self.log[: moment.offset + 1]
        rows = DictView()
        for each in part:
            rows.commit(apply(rows, each))
        self.asked_past += owners
        found = {owner: rows_of(rows, owner) for owner in owners if owner != CONTEXTS}
        if CONTEXTS in owners:
            found[CONTEXTS] = list(scan(rows, CONTEXT))
        return plain_owners(OwnerRows(len(part), found), self.cipher)

    async def ask(self, query: NodeQuery[Any, Any], request: Any) -> Any:
        if query is SNAPSHOTS:
            return list(self.entries.values())
        if query is CLUSTER:
            mine = NodeReport(node="n", url="http://here:8081", role="primary", applied=len(self.log))
            return ClusterStatus(node="n", primary=mine.url, problem="", nodes=[mine], primacies=[])
        if query.number in self.answers:
            return self.answers[query.number]
        if query is ASKERS:
            return Askers(asks=[], since=None)
        if query is AUDIT:
            return AuditEntries(entries=[], rest={}, nodes=[], missing=[])
        assert query is DELETE_SNAPSHOT
        if request not in self.entries:
            raise SNAPSHOT_NOT_FOUND(request)
        del self.entries[request]
        return []

    async def events(self, position: int, wait_s: float) -> Page:
        if position >= len(self.log):
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await asyncio.Event().wait()
        records = [each for each in self.log[position:] if each.offset >= self.deleted_before]
        if 0 < position < self.deleted_before:
            raise EVENTS_DELETED(position - 1, self.deleted_before, self.deleted_before - 1)
        found = [event for event in map(event_of, records) if event is not None]
        return Page([encode_event(each) for each in found], max(position, len(self.log)))

    def append(self, key: bytes | None, value: bytes | None, principal: bytes = b"") -> None:
        record = Record(len(self.log), self.first_ts + len(self.log), key, value, principal)
        self.log.append(record)
        self.rows.commit(apply(self.rows, record))

    async def confirm(self) -> bool:
        self.confirmed += 1
        if self.stuck:
            await asyncio.Event().wait()
        if self.fresh:
            self.follow()
        return self.fresh

    def lag(self) -> None:
        """Forget the last record, as if it were another node's that has not arrived yet."""
        self.behind.insert(0, self.log.pop())
        self.rows = _Rows(self)
        for record in self.log:
            self.rows.commit(apply(self.rows, record))

    def follow(self) -> None:
        """Apply the records that are missing."""
        for record in self.behind:
            self.log.append(record)
            self.rows.commit(apply(self.rows, record))
        self.behind.clear()

    def applied(self) -> int:
        return len(self.log)

    async def status(self) -> NodeStatus:
        return NodeStatus(
            role="primary", epoch=0, applied=len(self.log), end=len(self.log), digest=self.digest(),
            started=not self.reasons, ready=not self.reasons, reasons=self.reasons,
            ready_for_writes=not (self.reasons or self.unwritable),
            reasons_for_writes=[*self.reasons, *self.unwritable], log="log-1",
        )  # fmt: skip

    def digest(self) -> str:
        return digest.text(digest.of_rows(scan(self.rows, b"")))


class _Rows(DictView):
    """The rows of a backend, with its history."""

    def __init__(self, backend: ListBackend) -> None:
        super().__init__()
        self._backend = backend

    def history(self) -> History | None:
        return self._backend.history()


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> tuple[int, int, str]:
        """Return status, code and message of an error in the documented shape."""
        assert list(self.json) == ["error_code", "message"]
        return self.status, self.json["error_code"], self.json["message"]


class SearchesHere:
    """Searches for duplicates in this process."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def lines(self, wanted: SearchRequest) -> AsyncGenerator[bytes]:
        with self._backend.view() as view:
            rows = view if wanted.spans is None else PermittedView(view, wanted.spans)
            search = find_groups(rows, wanted.prefix, deleted=wanted.deleted, bounds=wanted.bounds)
            found = run_search(search)
        for line in answer_of(found):
            yield orjson.dumps(line) + b"\n"


class Api:
    """Speaks ASGI to the application, so that targets and bodies reach it byte for byte."""

    def __init__(self, backend: Any = None, settings: ApiSettings | None = None, **options: Any) -> None:
        self.backend = backend or ListBackend(settings)
        self.app = create_app(self.backend, settings, **{"searches": SearchesHere(self.backend), **options})
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.close()

    def get(self, target: str, **headers: str) -> Reply:
        return self.request("GET", target, headers=headers)

    def post(self, target: str, body: Any = None, **headers: str) -> Reply:
        return self.request("POST", target, body, headers)

    def put(self, target: str, body: Any = None, **headers: str) -> Reply:
        return self.request("PUT", target, body, headers)

    def delete(self, target: str, **headers: str) -> Reply:
        return self.request("DELETE", target, headers=headers)

    def request(
        self, method: str, target: str | bytes, body: Any = None, headers: Headers | None = None
    ) -> Reply:
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        return self.stream(method, target, [raw], headers)

    def stream(
        self,
        method: str,
        target: str | bytes,
        parts: list[bytes],
        headers: Headers | None = None,
        *,
        ends: str = "complete",
    ) -> Reply:
        """Send the body in ``parts``; then ``complete`` it, or ``disconnect``."""
        return self._runner.run(self._exchange(method, target, list(parts), headers or {}, ends))

    async def _exchange(
        self, method: str, target: str | bytes, parts: list[bytes], headers: Headers, ends: str
    ) -> Reply:
        raw = target if isinstance(target, bytes) else target.encode()
        path, _, query = raw.partition(b"?")
        given = [
            (name.replace("_", "-").lower().encode(), value.encode("latin-1"))
            for name, value in (headers.items() if isinstance(headers, Mapping) else headers)
        ]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http",
            "path": path.decode(errors="replace"), "raw_path": path, "query_string": query, "root_path": "",
            "headers": given, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8081),
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            if parts:
                more = len(parts) > 1 or ends != "complete"
                return {"type": "http.request", "body": parts.pop(0), "more_body": more}
            if ends != "disconnect":
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        if not sent:
            return Reply(0, {}, b"")
        names = [name.decode().lower() for name, _ in sent[0]["headers"]]
        assert len(names) == len(set(names)), names
        found = {name.decode().lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent[1:]))

    # The setup of most tests.

    def register(self, subject: str, schema: str, **members: Any) -> int:
        reply = self.post(f"/subjects/{subject}/versions", {"schema": schema, **members})
        assert reply.status == 200, reply.body
        found: int = reply.json["id"]
        return found


def record(name: str, *fields: str) -> str:
    """Return the canonical text of a record of optional strings."""
    each = (f'{{"name":"{field}","type":"string","default":""}}' for field in fields)
    return f'{{"type":"record","name":"{name}","fields":[{",".join(each)}]}}'


class Requests:
    """Requests with schemas of one type; each call fails unless the answer is a success."""

    def __init__(self, schema_type: str) -> None:
        self.schema_type = schema_type

    def body(self, schema: str, **members: Any) -> dict[str, Any]:
        return {"schema": schema, "schemaType": self.schema_type, **members}

    def register(self, api: Api, subject: str, schema: str, **members: Any) -> dict[str, Any]:
        reply = api.post(f"/subjects/{subject}/versions", self.body(schema, **members))
        assert reply.status == 200, reply.body
        return dict(reply.json)

    def check(self, api: Api, subject: str, schema: str, **members: Any) -> list[str]:
        """Return the messages of a verbose compatibility check."""
        target = f"/compatibility/subjects/{subject}/versions?verbose=true"
        reply = api.post(target, self.body(schema, **members))
        assert reply.status == 200, reply.body
        assert reply.json["is_compatible"] is not bool(reply.json["messages"])
        return list(reply.json["messages"])
