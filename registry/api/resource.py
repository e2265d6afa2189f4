"""The steps from a request to its answer, the same for every operation; errors in Confluent's order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import orjson
from msgspec.structs import replace
from starlette.types import Message, Receive, Scope, Send

from registry.domain.commands import Deferred, Done, Forgotten, NotPrimary, Refused, Submitted, Unknown
from registry.domain.errors import (
    BAD_REQUEST,
    INCOMPATIBLE,
    METHOD_NOT_ALLOWED,
    NO_PRIMARY,
    OUTCOME_UNKNOWN,
    TIMED_OUT,
    RegistryError,
    outcome_unknown,
)
from registry.domain.pending_command import Origin
from registry.domain.principal import CheckedNames
from registry.security.client_address import wide_network
from registry.security.gate import Access, Admission

from . import media_types
from .answers import Answer, Disconnected, refusal, send_answer
from .backend import ApiSettings, Backend
from .bodies import without_rule_sets
from .list_slices import Lists
from .listing import Listing
from .operations import Call, Operation, Parts, PendingQuery, PendingSearch, Write
from .parameters import arguments
from .past import AT_OFFSET_HEADER, PastRows, moment_of
from .permissions import check_registry, without_hidden
from .request_context import GZIP_TAG, RequestContext, condition_of
from .row_handlers import BACKEND_SPARE_S, RowHandlers
from .worker_queries import WorkerQueries

MULTI_STATUS = 207  # of batches, whose parts succeed or fail on their own
FORWARD = "x-forward"  # set by a Confluent node that takes this one for the primary (Confluent 8.x)
_NOT_CACHED = ((b"cache-control", b"must-revalidate,no-cache,no-store"),)  # as Confluent 8.4 sends it


async def _nothing_to_receive() -> Message:
    """Be what is received of a request whose body is known."""
    raise Disconnected


# The batches whose results are counted, by path. The counter gets the batch, its successes and its failures.
_BATCHES = {"/associations:batchGet": "get", "/associations:batchMutate": "mutate"}
OnResults = Callable[[str, int, int], None]


class Resource:
    """The operations of one path."""

    def __init__(
        self,
        path: str,
        operations: Iterable[Operation],
        backend: Backend,
        settings: ApiSettings,
        worker_queries: WorkerQueries,
        lists: Lists,
        on_results: OnResults | None = None,
    ) -> None:
        self.path = path
        self.operations = {operation.method: operation for operation in operations}
        self._backend = backend
        self._settings = settings
        self._worker_queries = worker_queries
        self._lists = lists
        allowed = sorted({*self.operations, "OPTIONS", *(["HEAD"] if "GET" in self.operations else [])})
        self._allow = (b"allow", ", ".join(allowed).encode())
        self._batch = _BATCHES.get(path) if on_results is not None else None
        self._on_results = on_results
        self._handlers = RowHandlers(path, backend, settings, worker_queries, lists)

    async def __call__(self, context: RequestContext, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI request."""
        await send_answer(await self.answer(context, receive), scope, send, receive=receive)

    def takes(self, method: str) -> bool:
        """Return true if requests of the fast path with this method may be answered by :meth:`answer`."""
        operation = self.operations.get(method)
        return operation is not None and operation.handler is not None and not operation.own

    async def answer(self, context: RequestContext, receive: Receive = _nothing_to_receive) -> Answer:
        """Return the answer to one request; errors of the registry get the documented shape.

        ``receive`` is asked for the body, unless the context has it.
        """
        context.route = self.path
        kind = media_types.PRODUCED[0]
        try:
            operation = self._operation(context.method)
            if operation is None:
                answer = Answer(headers=(self._allow,))
            else:
                context.writes = operation.writes
                kind, plain = _negotiate(operation, context)
                answer = await self._answer(operation, context, receive, plain=plain)
                kind = media_types.JSON if operation.own else kind
        except RegistryError as error:
            allow = (self._allow,) if error.code == METHOD_NOT_ALLOWED.code else ()
            context.error_code = error.code
            answer = refusal(self._with_code(error), allow)
            if error.code == TIMED_OUT.code:
                kind, answer = media_types.JSON, answer._replace(headers=_NOT_CACHED)
        if (past := context.past) is not None and past.applied is not None:
            answer = self._of_the_past(answer, past, past.applied)
        context.offset = answer.offset
        if self._batch is not None and self._on_results is not None and answer.status == MULTI_STATUS:
            results = orjson.loads(answer.body)["results"]
            failed = sum("error" in each for each in results)
            self._on_results(self._batch, len(results) - failed, failed)
        return answer if answer.media_type is not None else answer._replace(media_type=kind)

    def _with_code(self, error: RegistryError) -> RegistryError:
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
        self, operation: Operation, context: RequestContext, receive: Receive, *, plain: bool
    ) -> Answer:
        sender, target = context.admission, context.target
        assert sender is not None
        assert target is not None
        check_registry(operation.permission, sender.access)
        args = arguments(operation.parameters, target.query)
        if operation.request_schema:
            body = await _read(receive) if context.body is None else context.body
            if self._settings.keep_rule_sets:
                context.body = body
            else:
                context.body, context.schema_request = without_rule_sets(body), None
        call = Call(
            context=context,
            path=context.path,
            args=args,
            body=context.body or b"",
            settings=self._settings,
            memory=self._worker_queries.memory,
            plain=plain,
            operation=operation.path,
            sender=sender,
        )
        if operation.writes:
            context.args = args
            if not context.plain:
                context.condition = condition_of(context.headers)
                if context.condition is not None and not operation.conditional:
                    raise BAD_REQUEST("This request cannot be made conditional by If-Match or If-None-Match")
        if operation.node_handler is not None:
            return await operation.node_handler(call, self._backend)
        # Each step has a limit of its own and says more; this one counts if several take long.
        timeout_s = self._settings.request_timeout_s
        until = asyncio.get_running_loop().time() + timeout_s
        limit = asyncio.timeout_at(until + min(BACKEND_SPARE_S, timeout_s))
        is_sent = False
        try:
            async with limit:
                if not context.plain:
                    await self._handlers.await_offset(context.headers)
                if (moment := moment_of(args)) is not None:
                    context.past = PastRows(self._backend, moment, call.path, _asker(call))
                    call = replace(call, past=context.past)
                result = await self._answer_from_rows(operation, call)
                if isinstance(result, Answer):
                    return result
                # The backend keeps the time limit, and knows better what became of the command. One timer
                # serves both steps.
                if timeout_s < BACKEND_SPARE_S:
                    limit.reschedule(until + BACKEND_SPARE_S)
                is_sent = True
                return await self._write(result, operation, context, sender, until)
        except TimeoutError:
            if is_sent:
                raise OUTCOME_UNKNOWN(outcome_unknown("The write was not confirmed in time")) from None
            if not limit.expired():
                raise
            raise TIMED_OUT() from None

    def _of_the_past(self, answer: Answer, past: PastRows, applied: int) -> Answer:
        more = [(AT_OFFSET_HEADER, b"%d" % (applied - 1))]
        if past.lasting and self._settings.cache_max_age_s and answer.status < 400:
            more.append((b"cache-control", b"max-age=%d" % self._settings.cache_max_age_s))
        return answer._replace(offset=applied, headers=(*answer.headers, *more))

    async def _answer_from_rows(self, operation: Operation, call: Call) -> Answer | Write:
        context = call.context
        result = await self._handlers.run(operation, call)
        assert not isinstance(result, PendingSearch | PendingQuery | Parts)
        if isinstance(result, Listing):
            rows = self._handlers.listed_rows(operation, call)
            return await self._lists.answer(result, context.raw_path, context.query, rows)
        if not isinstance(result, Answer):
            return result if isinstance(result, Write) else Write(result, ())
        context.writes = False  # what is registered already is answered from rows
        if context.plain or not result.headers:
            return result
        etag = next((value for name, value in result.headers if name == b"etag"), None)
        if etag is not None and _matches(context.headers.get("if-none-match"), etag.decode()):
            return result._replace(status=304, body=b"")
        return result

    async def _write(
        self, write: Write, operation: Operation, context: RequestContext, sender: Admission, until: float
    ) -> Answer:
        origin = _origin(context, sender, write.checked, until)
        answer = await self._submit(write.command, operation.status, origin, sender.access)
        if write.headers:
            answer = answer._replace(headers=(*answer.headers, *write.headers))
        answer = write.finished(answer)
        if operation.location:
            answer = _with_location(answer, operation.location, context)
        if answer.status == MULTI_STATUS:
            context.results = answer.body
        return self._handlers.with_headers(operation, write.call, answer)

    async def _submit(self, command: Submitted, status: int, origin: Origin, access: Access) -> Answer:
        match await self._backend.submit(command, origin):
            case Done(body, offset):
                return Answer(body, status, offset=offset)
            case Refused(code, message, retry_after_s, passages):
                error = RegistryError(code, message, passages)
                raise without_hidden(error, access).with_retry_after(retry_after_s)
            case Unknown(message):
                raise OUTCOME_UNKNOWN(message)
            case NotPrimary() | Forgotten() | Deferred():
                raise NO_PRIMARY()


def _asker(call: Call) -> str:
    """Return by whom requests that take long have their turns: a principal, or a network of clients."""
    sender = call.sender
    return f"{sender.kind}:{sender.principal.name}" if sender.principal.name else (
        wide_network(call.context.address)
    )  # fmt: skip


def _origin(context: RequestContext, sender: Admission, checked: CheckedNames | None, until: float) -> Origin:
    forwarded = not context.plain and context.headers.get(FORWARD, "").lower() == "true"
    request_id = context.request_id.decode("latin-1")
    return Origin(
        request_id,
        sender.principal,
        forwarded,
        checked=checked,
        kind=sender.kind,
        until=until,
        condition=context.condition,
    )


def _negotiate(operation: Operation, context: RequestContext) -> tuple[bytes, bool]:
    if context.media_type is not None and not operation.plain:
        return context.media_type, False
    plain, needs_json, own = operation.plain, operation.needs_json, operation.own
    return media_types.negotiate_all(context.headers, plain=plain, needs_json=needs_json, own=own)


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


def _with_location(answer: Answer, location: str, context: RequestContext) -> Answer:
    """Add ``Location``; Confluent's answers never have it."""
    context.made = made = orjson.loads(answer.body)["id"]
    headers = (*answer.headers, (b"location", f"{location}{made}".encode()))
    return answer._replace(headers=headers)


def _matches(wanted: str | None, etag: str) -> bool:
    if wanted is None:
        return False
    plain = etag.removeprefix("W/")
    given = (each.strip().removeprefix("W/").replace(f'{GZIP_TAG}"', '"') for each in wanted.split(","))
    return any(each in ("*", plain) for each in given)
