"""Histories of clients as files that anybody may check: the format is described in docs/proof.md."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from tests.faults.history import WRITES, Kind, Request

FORMAT = "registrar-history/1"
_NS = 1_000_000_000
# Refusals that say nothing about schemas: who asks, and how often.
_OF_CLIENT = (401, 403, 429)


def encode(requests: Iterable[Request], **about: Any) -> bytes:
    """Return a history as JSON lines; ``about`` describes it in the first one."""
    operations = sorted(map(operation, requests), key=lambda each: each["began"])
    return join([{"format": FORMAT, **about}, *operations])


def join(lines: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in lines)


def operation(request: Request) -> dict[str, Any]:
    """Return one line of a history: what was asked for, when, and what was answered."""
    outcome = outcome_of(request)
    line: dict[str, Any] = {
        "op": request.kind.value.replace(" ", "-"),
        "subject": request.subject,
        "node": request.node,
        "began": round(request.began * _NS),
        "ended": round(request.ended * _NS),
        "outcome": outcome,
    }
    line |= {name: value for name, value in _asked(request) if value is not None}
    if request.offset is not None:
        line["offset"] = request.offset
    if outcome == "refused":
        line["code"] = request.code
    if outcome == "ok":
        line |= _answered(request)
    return line


def outcome_of(request: Request) -> str:
    """Return what an answer says was done; see the table in docs/proof.md."""
    if request.done:
        return "stale" if request.warning and request.kind not in WRITES else "ok"
    if request.status in _OF_CLIENT:
        return "failed"
    if request.kind in WRITES:
        return "unknown" if request.uncertain else "failed" if request.failed else "refused"
    return "missing" if request.status == 404 else "failed"


def digest(schema: str) -> str:
    """Return what stands for a schema in a history: equal for equal texts, and short."""
    return hashlib.sha256(schema.encode()).hexdigest()[:16]


def _asked(request: Request) -> Iterator[tuple[str, Any]]:
    yield "at", request.at
    match request.kind:
        case Kind.REGISTER:
            yield "schema", digest(request.schema)
        case Kind.BY_ID:
            yield "id", request.schema_id
        case Kind.SET_CONFIG | Kind.SET_MODE:
            yield "value", request.value
        case Kind.FEED:
            yield "after", request.after


def _answered(request: Request) -> dict[str, Any]:
    answer = request.answer
    match request.kind:
        case Kind.REGISTER:
            return {"id": answer["id"], "version": answer["version"]}
        case Kind.LATEST:
            return {"id": answer["id"], "version": answer["version"], "schema": digest(answer["schema"])}
        case Kind.BY_ID:
            return {"schema": digest(answer["schema"])}
        case Kind.DELETE | Kind.LIST:
            return {"versions": answer}
        case Kind.CONFIG | Kind.DELETE_CONFIG:
            return {"value": answer["compatibilityLevel"]}
        case Kind.MODE | Kind.DELETE_MODE:
            return {"value": answer["mode"]}
        case Kind.FEED:
            events = [_event(each) for each in answer["events"] if each.get("subject") == request.subject]
            return {"events": events, "next": answer["next"]}
    return {}


def _event(event: dict[str, Any]) -> dict[str, Any]:
    shown = {name: event[name] for name in ("offset", "kind", "version", "id") if name in event}
    value = event.get("level") or event.get("mode")
    return shown if value is None else shown | {"value": value}
