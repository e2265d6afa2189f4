"""The search for duplicates, whose answer is a stream of JSON lines."""

from __future__ import annotations

from registry.domain import errors as e
from registry.domain.errors import BAD_REQUEST, NOT_OF_THE_LOG, UNAVAILABLE
from registry.duplicates.contract import GROUPS_MAX, Searches, SearchRequest
from registry.security.access import Permission
from registry.security.authorization.permitted_view import spans_of

from .answers import Answer, Header
from .backend import Backend
from .media_types import JSON_LINES
from .operations import Call, NodeHandler, Operation
from .parameters import flag, number, word
from .permissions import ADMINS

# nginx passes on a buffered answer only when it is complete.
_HEADERS: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


def duplicates_of(searches: Searches | None) -> NodeHandler:
    """Return the handler of ``GET /admin/duplicates``, for which ``searches`` does the work."""

    async def duplicates(call: Call, backend: Backend) -> Answer:
        limit = call.args["limit"]
        if not 1 <= limit <= GROUPS_MAX:
            raise BAD_REQUEST(f"limit is not between 1 and {GROUPS_MAX}")
        with backend.view():
            pass  # 503 until there are rows
        if backend.mismatch is not None:
            raise NOT_OF_THE_LOG(backend.mismatch.reason)
        if searches is None:
            raise UNAVAILABLE("This server does not search for duplicates")
        spans = None if call.access.everywhere(Permission.READ) else spans_of(call.access)
        wanted = SearchRequest(call.args["subjectPrefix"], call.args["deleted"], limit, spans)
        lines = searches.lines(wanted)
        # A generator that has begun is closed with the answer, whatever becomes of that.
        first = await anext(lines)
        return Answer(first, headers=_HEADERS, media_type=JSON_LINES, rest=lines, lasting=True)

    return duplicates


def operations(searches: Searches | None) -> tuple[Operation, ...]:
    """Return the operation."""
    return (
        Operation(
            method="GET",
            path="/admin/duplicates",
            summary="Search for schemas that are equal after normalisation; answers with JSON lines",
            permission=ADMINS,
            node_handler=duplicates_of(searches),
            parameters=(
                word("subjectPrefix", "Only subjects under this prefix, as for /schemas; :*: for all", ":*:"),
                flag("deleted", "Include soft-deleted versions"),
                number("limit", f"Maximum number of groups, up to {GROUPS_MAX}", 100),
            ),
            response_schema="DuplicatesLine",
            errors=(e.BAD_REQUEST, e.TOO_MANY_REQUESTS, e.UNAVAILABLE),
        ),
    )
