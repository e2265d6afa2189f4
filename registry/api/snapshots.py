"""Snapshots: request, list and delete them. Nodes build and retain them."""

from __future__ import annotations

import secrets

import msgspec

from registry.domain import errors as e
from registry.domain.commands import Command, RequestSnapshot
from registry.domain.rows.view import View
from snapshots.catalogue.catalogue import Entry

from .answers import Answer, Header
from .backend import Backend
from .node_queries import DELETE_SNAPSHOT, SNAPSHOTS
from .operations import WRITE_ERRORS, Call, Freshness, Operation
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
