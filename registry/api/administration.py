"""Resources of administrators: snapshots, the audit log, and the search for duplicates."""

from __future__ import annotations

import base64
import binascii
import secrets
from datetime import UTC, datetime

import msgspec

from registry.audit.log import time_text
from registry.audit.tail import AuditFilter, AuditQuery, Position
from registry.domain import errors as e
from registry.domain.commands import Command, RequestSnapshot
from registry.domain.errors import BAD_REQUEST, NOT_OF_THE_LOG, UNAVAILABLE
from registry.domain.rows.view import View
from registry.duplicates.contract import GROUPS_MAX, Searches, SearchRequest
from registry.security.authorization.permitted_view import spans_of
from registry.security.gate import Permission
from snapshots.catalogue.catalogue import Entry

from .answers import Answer, Header
from .backend import Backend
from .media_types import JSON_LINES
from .node_queries import AUDIT, DELETE_SNAPSHOT, SNAPSHOTS
from .operations import WRITE_ERRORS, Call, Freshness, NodeHandler, Operation
from .parameters import CURSOR, flag, number, word
from .past import time_ms
from .permissions import ADMINS

PATH = "/admin/snapshots"
_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)


def request_snapshot(call: Call, view: View) -> Command:
    """``POST /admin/snapshots``: 202 with the catalogue's entry. A body is ignored."""
    return RequestSnapshot(secrets.token_hex(8))


async def list_snapshots(call: Call, backend: Backend) -> Answer:
    """``GET /admin/snapshots``: newest first."""
    entries = await backend.ask(SNAPSHOTS, None)
    return _answer(entries)


async def get_snapshot(call: Call, backend: Backend) -> Answer:
    """``GET /admin/snapshots/{snapshot}``."""
    wanted = call.path["snapshot"]
    for entry in await backend.ask(SNAPSHOTS, None):
        if entry.id == wanted:
            return _answer(entry)
    raise e.SNAPSHOT_NOT_FOUND(wanted)


async def delete_snapshot(call: Call, backend: Backend) -> Answer:
    """``DELETE /admin/snapshots/{snapshot}``: 204, or 202 if its files cannot be reached."""
    left = await backend.ask(DELETE_SNAPSHOT, call.path["snapshot"])
    return _answer(left[0], 202) if left else Answer(status=204, headers=_NO_STORE)


def _answer(value: Entry | list[Entry], status: int = 200) -> Answer:
    return Answer(msgspec.json.encode(value), status, _NO_STORE)


OPERATIONS = (
    Operation(
        method="GET",
        path=PATH,
        summary="List the snapshots, newest first",
        permission=ADMINS,
        node_handler=list_snapshots,
        response_schema="Snapshots",
        errors=(e.UNAVAILABLE,),
    ),
    Operation(
        method="POST",
        path=PATH,
        summary="Request a snapshot of the current state; returns a pending request, if any",
        permission=ADMINS,
        handler=request_snapshot,
        freshness=Freshness.NEVER,
        response_schema="Snapshot",
        status=202,
        location=f"{PATH}/",
        errors=(*WRITE_ERRORS, e.UNAVAILABLE),
    ),
    Operation(
        method="GET",
        path=f"{PATH}/{{snapshot}}",
        summary="One snapshot",
        permission=ADMINS,
        node_handler=get_snapshot,
        response_schema="Snapshot",
        errors=(e.SNAPSHOT_NOT_FOUND, e.UNAVAILABLE),
    ),
    Operation(
        method="DELETE",
        path=f"{PATH}/{{snapshot}}",
        summary="Delete a snapshot; 202 if its files are unreachable and will be deleted later",
        permission=ADMINS,
        node_handler=delete_snapshot,
        status=204,
        errors=(e.SNAPSHOT_NOT_FOUND, e.SNAPSHOT_BUSY, e.UNAVAILABLE),
    ),
)


AUDIT_MAX, AUDIT_USUAL = 500, 100
_OUTCOMES = ("", "done", "refused", "unknown")
# Unlike those of JSON, integers of MessagePack are never too large for nodes to send on.
_encode_rest = msgspec.msgpack.Encoder().encode
_decode_rest = msgspec.msgpack.Decoder(dict[str, Position | None]).decode


async def list_audit(call: Call, backend: Backend) -> Answer:
    """``GET /admin/audit``: the newest entries of the audit logs of all nodes, as far as they are files."""
    args = call.args
    limit, outcome = args["limit"], args["outcome"]
    if not 1 <= limit <= AUDIT_MAX:
        raise BAD_REQUEST(f"limit is not between 1 and {AUDIT_MAX}")
    if outcome not in _OUTCOMES:
        raise BAD_REQUEST("outcome must be done, refused or unknown")
    wanted = AuditFilter(
        args["principal"], args["operation"], args["subject"], outcome,
        _audit_time("since", args["since"]), _audit_time("until", args["until"]),
    )  # fmt: skip
    found = await backend.ask(AUDIT, AuditQuery(wanted, limit, _positions(args[CURSOR.name])))
    rest = base64.urlsafe_b64encode(_encode_rest(found.rest)).decode() if found.rest else None
    body = {"entries": found.entries, "cursor": rest, "nodes": found.nodes, "missing": found.missing}
    return Answer(msgspec.json.encode(body), headers=_NO_STORE)


def _audit_time(name: str, text: str) -> str:
    if not text:
        return ""
    try:
        return time_text(datetime.fromtimestamp(time_ms(name, text) / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        raise BAD_REQUEST(f"{name} is not a valid time") from None


def _positions(cursor: str) -> dict[str, Position | None]:
    try:
        return _decode_rest(base64.b64decode(cursor, b"-_", validate=True)) if cursor else {}
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise BAD_REQUEST("cursor belongs to another list") from None


AUDIT_OPERATION = Operation(
    method="GET",
    path="/admin/audit",
    summary="The newest entries of the audit logs of all nodes, as far as they are files",
    permission=ADMINS,
    node_handler=list_audit,
    response_schema="AuditEntries",
    parameters=(
        word("principal", "Only entries of exactly this principal"),
        word("operation", "Only operations whose method and path contain this, in any letter case"),
        word("subject", "Only subjects whose name begins with this"),
        word("outcome", "Only this one: done, refused or unknown"),
        word("since", "Only entries from this time on: ms since the epoch, or ISO 8601"),
        word("until", "Only entries before this time"),
        number("limit", f"Maximum number of entries, at most {AUDIT_MAX}", AUDIT_USUAL),
        word(CURSOR.name, "The cursor of the previous page, for older entries"),
    ),
    errors=(BAD_REQUEST, e.UNAVAILABLE),
)


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
            summary="Search for schemas that are equal after normalization; answers with JSON lines",
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
