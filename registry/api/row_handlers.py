"""Running handlers on rows that are as new as their operations require."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from starlette.datastructures import Headers

from registry.domain.admission import LARGE_BYTES
from registry.domain.errors import (
    BAD_REQUEST,
    HISTORY_OFF,
    INVALID_SCHEMA,
    NOT_FOUND,
    TIMED_OUT,
    TOO_LATE,
    UNAVAILABLE,
    RegistryError,
)
from registry.domain.history.moment import Unloaded
from registry.domain.model import Subject
from registry.domain.parsing.querying import Unanswered
from registry.domain.queries import scope as scopes
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View
from registry.security.authorization.permitted_view import spans_of
from registry.security.gate import FULL_ACCESS, Access, Permission, RecordingAccess

from .answers import Answer, error_body
from .backend import ApiSettings, Backend
from .list_slices import Lists, VisibleRows
from .listing import Listing
from .operations import (
    Call,
    Computation,
    Freshness,
    Operation,
    Parts,
    PendingQuery,
    PendingSearch,
    Result,
    Write,
)
from .past import PastRows
from .permissions import check_subject, readable
from .worker_queries import WorkerQueries

# Seconds that a step, such as that of the backend, may take longer than a request: it ends by itself first.
BACKEND_SPARE_S = 1.0
MIN_OFFSET = "x-registry-min-offset"
STALE = (b"warning", b'110 - "Response is Stale"')  # on answers from rows that may be older than the log

_T = TypeVar("_T")
_NO_ROWS = DictView()
_UNCONFIRMED_ALIAS = "Cannot reach the log to confirm that this is permitted; try again later"
_UNCONFIRMED_PAST = "Cannot reach the log to reconstruct past state; try again later"
_UNCONFIRMED = "Cannot reach the log to confirm that this does not exist; try again later"


class RowHandlers:
    """Runs the row handlers of one path."""

    def __init__(
        self,
        path: str,
        backend: Backend,
        settings: ApiSettings,
        worker_queries: WorkerQueries,
        lists: Lists,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._worker_queries = worker_queries
        self._lists = lists
        self._aliased = "/subjects/{subject}" in path

    async def await_offset(self, headers: Headers) -> None:
        """Wait until the rows include the log up to the offset that a request names. Raises 400, 503."""
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
            raise BAD_REQUEST("X-Registry-Min-Offset is beyond the end of the log")
        raise UNAVAILABLE("This server has not reached X-Registry-Min-Offset yet; try again")

    async def run(self, operation: Operation, call: Call) -> Result:
        """Call the handler with rows that are as new as the operation requires.

        An answer from rows whose log has turned out to be another one is never taken for fresh.
        """
        result = await self._run(operation, call)
        return result if self._backend.mismatch is None else _stale(result)

    async def _run(self, operation: Operation, call: Call) -> Result:
        freshness, settings = operation.freshness, self._settings
        if call.past is not None:
            return await self._answer_past(operation, call, call.past)
        if freshness is Freshness.NEVER or not settings.cluster:
            return await self._call_handler(operation, call)
        # What is permitted can depend on an alias, which stale rows may not show.
        checked = freshness is Freshness.DECIDED and not _is_unlimited(operation, call)
        if (freshness is not Freshness.ALWAYS or settings.local_reads) and not checked:
            try:
                result = await self._call_handler(operation, call)
            except RegistryError as error:
                if freshness is not Freshness.DECIDED and not _is_miss(error):
                    raise
            else:
                if freshness is not Freshness.DECIDED or not isinstance(result, Answer):
                    return result
        return await self._confirm(operation, call)

    async def _answer_past(self, operation: Operation, call: Call, past: PastRows) -> Result:
        """Call the handler with the rows of a past moment; what is permitted today counts."""
        if not self._settings.history:
            raise HISTORY_OFF()
        with self._backend.view() as view:
            now = self._with_subject(call, view)
        check_subject(operation.permission, call.access, now.requested_subject, now.subject)
        if self._settings.cluster and not await self._backend.confirm():
            raise UNAVAILABLE(_UNCONFIRMED_PAST)
        try:
            # Each step is bounded too, but a schema can refer to many subjects.
            async with asyncio.timeout(self._settings.request_timeout_s):
                return await self._load_rows(operation, call, past)
        except TimeoutError:
            raise TOO_LATE() from None

    async def _load_rows(self, operation: Operation, call: Call, past: PastRows) -> Result:
        """Call the handler until the rows that it needs are there."""
        await past.load()
        while True:
            try:
                return await self._call_handler(operation, call)
            except Unloaded as lacking:
                await past.load(lacking)

    async def _confirm(self, operation: Operation, call: Call) -> Result:
        confirmed = await self._backend.confirm()
        if operation.freshness is Freshness.DECIDED:
            if not confirmed and not _is_unlimited(operation, call):
                raise UNAVAILABLE(_UNCONFIRMED_ALIAS)
            return await self._call_handler(operation, replace(call, confirmed=confirmed))
        result = await _as_confirmed(self._call_handler(operation, call), confirmed=confirmed)
        return result if confirmed else _stale(result)

    async def _call_handler(self, operation: Operation, call: Call) -> Result:
        """Call the handler; a write carries the names that it has checked, unless all are permitted."""
        if not operation.writes or _is_unlimited(operation, call):
            return await self._find(operation, call)
        recorder = RecordingAccess(call.access)
        result = await self._find(operation, replace(call, recorder=recorder))
        if isinstance(result, Answer | Listing | PendingSearch | PendingQuery | Parts):
            return result
        write = result if isinstance(result, Write) else Write(result, ())
        return write._replace(checked=recorder.checked_names)

    async def _find(self, operation: Operation, call: Call) -> Result:
        rows = self.rows(operation, call)
        work: Callable[[View], Computation] = partial(self._handle, operation, call)
        result = await self._complete(work, rows, call)
        return await self._begin(result, rows, call) if isinstance(result, Parts) else result

    async def _complete(self, work: Callable[[View], Computation], rows: VisibleRows, call: Call) -> Result:
        queries, timeout_s = self._worker_queries, self._settings.request_timeout_s
        large = len(call.body) > LARGE_BYTES
        result: Result = await queries.do(work, rows.view, timeout_s, large=large)
        while isinstance(result, PendingSearch | PendingQuery):
            if isinstance(result, PendingSearch):
                found = await self._lists.run(result.search, rows)
            else:
                found = await self._backend.ask(result.query, result.request)
            work = partial(_answer, result.answer, found)
            result = await queries.do(work, rows.view, timeout_s)
            await asyncio.sleep(0)  # searches may follow one another
        return result

    async def _begin(self, parts: Parts, rows: VisibleRows, call: Call) -> Answer:
        """Return an answer that has its first member; raise the error of that."""
        member = next(parts.members)
        first = await self._complete(member.work, rows, call)
        assert isinstance(first, Answer)
        if call.past is not None:
            call.past.lasting = False  # another part may still fail, which nobody should keep
        rest = self._rest(parts, first.body, rows, call)
        return Answer(member.head + first.body, headers=first.headers, rest=rest)

    async def _rest(self, parts: Parts, body: bytes, rows: VisibleRows, call: Call) -> AsyncGenerator[bytes]:
        """Yield the other members, of which each is a request by itself, and what comes after them."""
        while True:
            try:
                member = parts.members.send(body)
            except StopIteration as stop:
                yield stop.value
                return
            try:
                body = await self._member(member.work, rows, call)
            except RegistryError as error:
                body = error_body(error.code, error.message)
            yield member.head + body

    async def _member(self, work: Callable[[View], Computation], rows: VisibleRows, call: Call) -> bytes:
        """Return the JSON of a member, found in the time of a request. Raises 504 and others."""
        timeout_s = self._settings.request_timeout_s
        limit = asyncio.timeout(timeout_s + min(BACKEND_SPARE_S, timeout_s))
        try:
            async with limit:
                return await self._confirm_member(work, rows, call)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TIMED_OUT() from None

    async def _confirm_member(
        self, work: Callable[[View], Computation], rows: VisibleRows, call: Call
    ) -> bytes:
        try:
            return await self._load_member(work, rows, call)
        except RegistryError as error:
            if not self._settings.cluster or call.past is not None or not _is_miss(error):
                raise
        confirmed = await self._backend.confirm()
        return await _as_confirmed(self._load_member(work, rows, call), confirmed=confirmed)

    async def _load_member(self, work: Callable[[View], Computation], rows: VisibleRows, call: Call) -> bytes:
        while True:
            try:
                answer = await self._complete(work, rows, call)
            except Unloaded as lacking:
                assert call.past is not None
                await call.past.load(lacking)
            else:
                assert isinstance(answer, Answer)
                return answer.body

    def _handle(self, operation: Operation, call: Call, view: View) -> Computation:
        assert operation.handler is not None
        call = self._with_subject(call, view)
        check_subject(operation.permission, call.access, call.requested_subject, call.subject)
        return operation.handler(call, view)

    def rows(self, operation: Operation, call: Call) -> VisibleRows:
        """Return the rows that an operation sees."""
        if operation.freshness is Freshness.NEVER:
            return _NOTHING
        view = self._backend.view if call.past is None else call.past.view
        access = call.sender.access
        if operation.sees_all or access.everywhere(Permission.READ):
            return VisibleRows(view)
        return VisibleRows(partial(_readable, view, access))

    def listed_rows(self, operation: Operation, call: Call) -> VisibleRows:
        """Return the rows of a list; positions in it are shared only by those who may read the same.

        This holds whatever the operation sees, because its handler may show less than that.
        """
        rows, access = self.rows(operation, call), call.sender.access
        return rows if access.everywhere(Permission.READ) else rows._replace(key=spans_of(access).key)

    def _with_subject(self, call: Call, view: View) -> Call:
        requested = call.context.subject
        if requested is None:
            name = call.path.get("subject")
            if name is None:
                return call
            requested = call.context.subject = Subject.parse(name)
        if not self._aliased:
            return replace(call, subject=requested, requested_subject=requested)
        place = scopes.resolve_configured(view, requested)
        return replace(call, subject=place.subject, requested_subject=requested, place=place)

    def with_headers(self, operation: Operation, call: Call | None, answer: Answer) -> Answer:
        """Add further headers to the answer of a write; the write stands even if that fails.

        ``call``: as the handler saw it, so that its alias is not resolved a second time.
        """
        if operation.extra_headers is None or call is None:
            return answer
        find = operation.extra_headers(call, answer)
        if find is None:
            return answer
        try:
            with self._backend.view() as view:
                more = self._worker_queries.attempt(find(view))
        except RegistryError:
            return answer
        if isinstance(more, Unanswered):
            return answer
        return answer._replace(headers=(*answer.headers, *more))


async def _as_confirmed(result: Awaitable[_T], *, confirmed: bool) -> _T:
    """Return a result from rows; 503 for a miss if they may lack what the log has."""
    try:
        return await result
    except RegistryError as error:
        if confirmed or not _is_miss(error):
            raise
        raise UNAVAILABLE(_UNCONFIRMED) from None


def _stale(result: Result) -> Result:
    """Return an answer with the warning that its rows may be older than the log; all else as it is."""
    if not isinstance(result, Answer | Listing) or STALE in result.headers:
        return result
    headers = (*result.headers, STALE)
    if isinstance(result, Listing):
        return dataclasses.replace(result, headers=headers)
    return result._replace(headers=headers)


def _no_rows() -> AbstractContextManager[View]:
    return nullcontext(_NO_ROWS)


_NOTHING = VisibleRows(_no_rows)


@contextmanager
def _readable(view: Callable[[], AbstractContextManager[View]], access: Access) -> Iterator[View]:
    with view() as rows:
        yield readable(rows, access)


def _is_unlimited(operation: Operation, call: Call) -> bool:
    access, needed = call.sender.access, operation.permission
    return access is FULL_ACCESS or all(map(access.everywhere, needed.any_of + needed.also))


def _answer(answer: Callable[[View, Any], Computation], found: Any, view: View) -> Computation:
    return answer(view, found)


def _is_miss(error: RegistryError) -> bool:
    """Return true if newer rows may give another answer: the object or a referenced schema is missing."""
    return (error.status == 404 and error.code != NOT_FOUND.code) or error.code == INVALID_SCHEMA.code
