"""The steps from a request to its answer, the same for every operation; errors in Confluent's order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import Command, Deferred, Done, Forgotten, NotPrimary, Refused, Unknown
from registry.domain.errors import (
    BAD_REQUEST,
    INCOMPATIBLE,
    INVALID_SCHEMA,
    METHOD_NOT_ALLOWED,
    NO_PRIMARY,
    NOT_FOUND,
    OUTCOME_UNKNOWN,
    UNAVAILABLE,
    RegistryError,
    outcome_unknown,
)
from registry.domain.model import Subject
from registry.domain.parsing.querying import Unanswered
from registry.domain.pending_command import Origin
from registry.domain.queries import scope as scopes
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View

from . import media_types
from .answers import Answer, Disconnected, refusal, send_answer
from .backend import ApiSettings, Backend
from .bodies import without_rule_sets
from .list_slices import Lists
from .listing import Listing
from .operations import Call, Computed, Fresh, Handled, Operation, Sought
from .parameters import arguments
from .worker_queries import WorkerQueries

MIN_OFFSET = "x-registry-min-offset"
FORWARD = "x-forward"  # set by a Confluent node that takes this one for the primary (Confluent 8.x)
STALE = (b"warning", b'110 - "Response is Stale"')  # on answers from rows that may be older than the log
STATE = "registry"  # key in the ASGI scope: the request's decoded target and its answer's offset


_NO_ROWS = DictView()
_UNCONFIRMED = "Cannot reach the log to confirm that this does not exist; try again later"


class Resource:
    """The operations of one path, as an ASGI application."""

    def __init__(
        self,
        path: str,
        operations: Iterable[Operation],
        backend: Backend,
        settings: ApiSettings,
        worker_queries: WorkerQueries,
        lists: Lists,
    ) -> None:
        self.path = path
        self.operations = {operation.method: operation for operation in operations}
        self._backend = backend
        self._settings = settings
        self._worker_queries = worker_queries
        self._lists = lists
        allowed = sorted({*self.operations, "OPTIONS", *(["HEAD"] if "GET" in self.operations else [])})
        self._allow = (b"allow", ", ".join(allowed).encode())
        self._aliased = "/subjects/{subject}" in path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; errors of the registry become answers in the documented shape."""
        state = scope[STATE]
        state["route"] = self.path
        kind = media_types.PRODUCED[0]
        try:
            operation = self._operation(scope["method"])
            if operation is None:
                answer = Answer(headers=(self._allow,))
            else:
                headers = Headers(scope=scope)
                content_type = _bytes(headers.get("content-type"))
                if operation.needs_json:
                    media_types.check_json(content_type, has_body=_has_body(headers))
                if not operation.own:
                    media_types.check_consumed(content_type)
                    kind = media_types.negotiated(b",".join(_all(headers, "accept")), plain=operation.plain)
                plain = kind == media_types.PLAIN
                kind = media_types.PRODUCED[0] if plain else kind  # errors are JSON
                answer = await self._answer(operation, scope, headers, receive, plain=plain)
        except RegistryError as error:
            allow = (self._allow,) if error.code == METHOD_NOT_ALLOWED.code else ()
            answer = refusal(self._coded(error), allow)
        if answer.offset is not None:
            state["offset"] = answer.offset
        await send_answer(answer, scope, send, kind, receive)

    def _coded(self, error: RegistryError) -> RegistryError:
        if error.code != INCOMPATIBLE.code:
            return error
        return RegistryError(self._settings.incompatible_error_code, error.message)

    def _operation(self, method: str) -> Operation | None:
        if method == "OPTIONS":
            return None
        operation = self.operations.get("GET" if method == "HEAD" else method)
        if operation is None:
            raise METHOD_NOT_ALLOWED()
        return operation

    async def _answer(
        self, operation: Operation, scope: Scope, headers: Headers, receive: Receive, *, plain: bool
    ) -> Answer:
        call = Call(
            path=scope["path_params"],
            args=arguments(operation.parameters, scope[STATE]["target"].query),
            body=await self._body(receive) if operation.takes else b"",
            settings=self._settings,
            memory=self._worker_queries.memory,
            plain=plain,
            operation=operation.path,
            access=scope[STATE]["admission"].access,
        )
        if operation.node_handler is not None:
            return await operation.node_handler(call, self._backend)
        await self._await_offset(headers)
        result = await self._from_rows(operation, call)
        assert not isinstance(result, Sought)
        if isinstance(result, Listing):
            path = scope.get("raw_path") or scope["path"].encode()
            return await self._lists.answer(result, path.partition(b"?")[0], scope.get("query_string", b""))
        if not isinstance(result, Answer):
            answer = await self._submit(result, operation.status, _origin(scope, headers))
            answer = _placed(answer, operation.place) if operation.place else answer
            return self._with_more(operation, call, answer)
        etag = next((value for name, value in result.headers if name == b"etag"), None)
        if etag is not None and _matches(headers.get("if-none-match"), etag.decode()):
            return result._replace(status=304, body=b"")
        return result

    async def _from_rows(self, operation: Operation, call: Call) -> Handled:
        """Call the handler with rows that are as new as the operation requires."""
        fresh, settings = operation.fresh, self._settings
        if fresh is Fresh.NEVER or not settings.cluster:
            return await self._handled(operation, call)
        if fresh is not Fresh.ALWAYS or settings.local_reads:
            try:
                result = await self._handled(operation, call)
            except RegistryError as error:
                if fresh is not Fresh.DECIDED and not _is_miss(error):
                    raise
            else:
                if fresh is not Fresh.DECIDED or not isinstance(result, Answer):
                    return result
        return await self._confirmed(operation, call)

    async def _confirmed(self, operation: Operation, call: Call) -> Handled:
        confirmed = await self._backend.confirm()
        if operation.fresh is Fresh.DECIDED:
            return await self._handled(operation, replace(call, from_rows=confirmed))
        try:
            result = await self._handled(operation, call)
        except RegistryError as error:
            if confirmed or not _is_miss(error):
                raise
            raise UNAVAILABLE(_UNCONFIRMED) from None
        if not confirmed and isinstance(result, Listing):
            return replace(result, headers=(*result.headers, STALE))
        if not confirmed and isinstance(result, Answer):
            return result._replace(headers=(*result.headers, STALE))
        return result

    async def _handled(self, operation: Operation, call: Call) -> Handled:
        large = len(call.body) > LARGE_BYTES
        rows = _no_rows if operation.fresh is Fresh.NEVER else self._backend.view
        result = await self._done(partial(self._handle, operation, call), rows, large=large)
        while isinstance(result, Sought):
            found = await self._lists.found(result.search)
            result = await self._done(partial(_answered, result.answer, found), rows)
            await asyncio.sleep(0)  # searches may follow one another
        return result

    async def _done(
        self,
        work: Callable[[View], Computed],
        rows: Callable[[], AbstractContextManager[View]],
        *,
        large: bool = False,
    ) -> Handled:
        return await self._worker_queries.do(work, rows, self._settings.request_timeout_s, large=large)

    def _handle(self, operation: Operation, call: Call, view: View) -> Computed:
        assert operation.handler is not None
        return operation.handler(self._with_subject(call, view), view)

    def _with_subject(self, call: Call, view: View) -> Call:
        name = call.path.get("subject")
        if name is None:
            return call
        asked = subject = Subject.parse(name)
        if self._aliased:
            subject = scopes.aliased(view, asked)
        return replace(call, subject=subject, asked=asked)

    def _with_more(self, operation: Operation, call: Call, answer: Answer) -> Answer:
        """Add further headers to the answer of a write; the write stands even if that fails."""
        if operation.after is None:
            return answer
        try:
            with self._backend.view() as view:
                steps = operation.after(self._with_subject(call, view), view, answer)
                more = self._worker_queries.attempt(steps)
        except RegistryError:
            return answer
        if isinstance(more, Unanswered):
            return answer
        return answer._replace(headers=(*answer.headers, *more))

    async def _submit(self, command: Command, status: int, origin: Origin) -> Answer:
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                outcome = await self._backend.submit(command, origin)
        except TimeoutError:
            raise OUTCOME_UNKNOWN(outcome_unknown("The write was not confirmed in time")) from None
        match outcome:
            case Done(body, offset):
                return Answer(body, status, offset=offset)
            case Refused(code, message, retry_after_s):
                raise RegistryError(code, message).retried_after(retry_after_s)
            case Unknown(message):
                raise OUTCOME_UNKNOWN(message)
            case NotPrimary() | Forgotten() | Deferred():
                raise NO_PRIMARY()

    async def _await_offset(self, headers: Headers) -> None:
        wanted = headers.get(MIN_OFFSET)
        if wanted is None:
            return
        if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 20):
            raise BAD_REQUEST("X-Registry-Min-Offset is not an offset")
        if int(wanted) <= self._backend.applied():
            return
        confirmed = await self._backend.confirm()
        if int(wanted) <= self._backend.applied():
            return
        if confirmed and (self._settings.cluster or int(wanted) > (await self._backend.status()).end):
            raise BAD_REQUEST("X-Registry-Min-Offset lies beyond the end of the log")
        raise UNAVAILABLE("This server has not reached X-Registry-Min-Offset yet; try again")

    async def _body(self, receive: Receive) -> bytes:
        body = await _read(receive)
        return body if self._settings.keep_rule_sets else without_rule_sets(body)


def _no_rows() -> AbstractContextManager[View]:
    return nullcontext(_NO_ROWS)


def _answered(answer: Callable[[View, Any], Computed], found: Any, view: View) -> Computed:
    return answer(view, found)


def _origin(scope: Scope, headers: Headers) -> Origin:
    state = scope[STATE]
    forwarded = headers.get(FORWARD, "").lower() == "true"
    return Origin(state["request_id"], state["admission"].principal, forwarded)


async def _read(receive: Receive) -> bytes:
    """Return the complete body; the server limits its size and the time that it takes."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def _placed(answer: Answer, place: str) -> Answer:
    """Add ``Location``; Confluent's answers never have it."""
    made: str = orjson.loads(answer.body)["id"]
    headers = (*answer.headers, (b"location", f"{place}{made}".encode()))
    return answer._replace(headers=headers, media_type=b"application/json")


def _is_miss(error: RegistryError) -> bool:
    """Return true if newer rows may give another answer: the object or a referenced schema is missing."""
    return (error.status == 404 and error.code != NOT_FOUND.code) or error.code == INVALID_SCHEMA.code


def _all(headers: Headers, name: str) -> Iterator[bytes]:
    return (value.encode("latin-1") for value in headers.getlist(name))


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")


def _matches(wanted: str | None, etag: str) -> bool:
    if wanted is None:
        return False
    plain = etag.removeprefix("W/")
    return any(each.strip() == "*" or each.strip().removeprefix("W/") == plain for each in wanted.split(","))
