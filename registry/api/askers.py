"""``/usage/…/askers``: who has asked for a subject or a schema, as all nodes have counted.

Principals, addresses, user agents and nodes are named to administrators; others get numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import msgspec

from registry.domain import errors as e
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.security.gate import Permission

from .answers import Answer, Header
from .asks import NO_VERSION, Ask, Asker, Askers, AskersOf, day_text
from .backend import Backend
from .node_queries import ASKERS
from .operations import Call, Operation
from .parameters import SCOPE, path_number
from .permissions import ADMINS, in_handler, require_resolved

# Askers that are named in one answer; all are counted.
SHOWN_MAX = 1_000
_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)


async def subject_askers(call: Call, backend: Backend) -> Answer:
    """``GET /usage/subjects/{subject}/askers``: by any version, soft-deleted ones included."""
    subject = _subject(call, backend)
    if subject is None:
        await backend.confirm()
        subject = _subject(call, backend)
    if subject is None:
        raise e.SUBJECT_NOT_FOUND(Subject.parse(call.path["subject"]).qualified)
    found = await backend.ask(ASKERS, AskersOf(subject=subject.qualified))
    return _answer(call, {"subject": subject.qualified}, found)


def _subject(call: Call, backend: Backend) -> Subject | None:
    """Return the subject in the path, with its alias resolved; ``None`` if it has no versions. Raises 403."""
    with backend.view() as view:
        subject = require_resolved(call.access, Permission.READ, view, Subject.parse(call.path["subject"]))
        return subject if versions.exists(view, subject, deleted=True) else None


async def schema_askers(call: Call, backend: Backend) -> Answer:
    """``GET /usage/schemas/{id}/askers``: by its id in a context, its guid, or as a version of a subject."""
    schema_id, context = path_number(call.path["id"]), Subject.parse(call.args[SCOPE.name]).context
    found = await backend.ask(ASKERS, AskersOf(context=context, schema_id=schema_id))
    return _answer(call, {"id": schema_id, "context": context}, found)


def _answer(call: Call, head: dict[str, Any], found: Askers) -> Answer:
    members = {**head, **askers_members(call, found, SHOWN_MAX)}
    return Answer(msgspec.json.encode(members), headers=_NO_STORE)


def askers_members(call: Call, found: Askers, most: int, *, by_version: bool = True) -> dict[str, Any]:
    """Return what the sender of a request may see of who has asked; ``most``: so many are named."""
    by_asker = [list(asks) for _, asks in groupby(_in_order(found.asks), lambda each: each.asker)]
    by_asker.sort(key=lambda asks: (-max(each.last for each in asks), asks[0].asker))
    sees_names = call.access.everywhere(Permission.ADMIN)
    named = by_asker[:most] if sees_names else []
    return {
        "since": None if found.since is None else day_text(found.since),
        **_summary(found.asks),
        "askers": [_members(asks, by_version=by_version) for asks in named],
        "askerCount": len(by_asker) + found.more,
        "other": found.other,
        "missing": found.missing if sees_names else [],
        "missingCount": len(found.missing),
    }


def _in_order(asks: Iterable[Ask]) -> list[Ask]:
    return sorted(asks, key=lambda each: (each.asker, each.thing.version))


def _members(asks: list[Ask], *, by_version: bool) -> dict[str, Any]:
    """Return what clients see of one asker; a version is null where a request named none."""
    asker: Asker = asks[0].asker
    members = {
        "principal": asker.principal, "kind": asker.kind, "address": asker.address, "agent": asker.agent,
        **_summary(asks),
    }  # fmt: skip
    if by_version:
        members["versions"] = [
            {"version": None if each.thing.version == NO_VERSION else each.thing.version, **_summary([each])}
            for each in asks
        ]
    return members


def _summary(asks: list[Ask]) -> dict[str, Any]:
    first, last = (
        min((each.first for each in asks), default=None),
        max((each.last for each in asks), default=None),
    )
    return {
        "requests": sum(each.requests for each in asks),
        "first": None if first is None else day_text(first),
        "last": None if last is None else day_text(last),
    }


OPERATIONS = (
    Operation(
        method="GET",
        path="/usage/subjects/{subject}/askers",
        summary="Who has asked for the versions of a subject, by version",
        permission=in_handler(Permission.READ),
        node_handler=subject_askers,
        response_schema="SubjectAskers",
        errors=(e.SUBJECT_NOT_FOUND, e.UNAVAILABLE),
    ),
    Operation(
        method="GET",
        path="/usage/schemas/{id}/askers",
        summary="Who has asked for a schema, by its id",
        permission=ADMINS,
        node_handler=schema_askers,
        response_schema="SchemaAskers",
        parameters=(SCOPE,),
        errors=(e.UNAVAILABLE,),
    ),
)
