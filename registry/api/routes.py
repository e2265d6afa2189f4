"""The route table: all operations that are served; and the OpenAPI document, generated from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import orjson

from registry.duplicates.contract import Searches
from registry.feed.hub import Hub

from . import (
    administration,
    admission,
    askers,
    associations,
    changes,
    checks,
    comparison,
    entity_schemas,
    lists,
    lookup,
    own_schemas,
    registration,
    schemas,
    scope_chain,
    scopes,
    search,
    server_info,
    subjects,
    summary,
    timeline,
    usage,
    version_usage,
    webhooks,
)
from .answers import Answer
from .backend import Backend
from .media_types import CONSUMED, JSON_LINES, PLAIN, PRODUCED
from .operations import Call, Freshness, NodeHandler, Operation
from .parameters import CURSOR, Parameter
from .past import AT_OFFSET
from .permissions import OPEN

Json = dict[str, Any]

_KINDS: dict[str, Json] = {
    "flag": {"type": "boolean"},
    "number": {"type": "integer", "format": "int32"},
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
}
_PATH_PARAMETERS: dict[str, Json] = {
    "subject": {
        "description": "A subject, qualified as :.ctx:name outside the default context; for config and "
        "mode also a context, :.ctx:, or the default of all contexts, :.__GLOBAL:",
        "schema": {"type": "string", "minLength": 1},
    },
    "version": {
        "description": "A version from 1 on, or latest, or -1 for the latest",
        "schema": {"type": "string", "minLength": 1, "examples": ["latest", "1"]},
    },
    "id": {"description": "The id of a schema", "schema": {"type": "integer", "format": "int32"}},
    "guid": {"description": "The guid of a schema", "schema": {"type": "string", "minLength": 1}},
    "context": {
        "description": "A context: name, .name or :.name:",
        "schema": {"type": "string", "minLength": 1},
    },
    "webhook": {"description": "The name of a webhook", "schema": {"type": "string", "minLength": 1}},
    "source": {
        "description": "The name of a source: a topic, or a path of files with #column",
        "schema": {"type": "string", "minLength": 1},
    },
    "snapshot": {"description": "The id of a snapshot", "schema": {"type": "string", "minLength": 1}},
    "resource": {"description": "The id of a resource", "schema": {"type": "string", "minLength": 1}},
    "namespace": {"description": "The namespace of a resource", "schema": {"type": "string", "minLength": 1}},
    "name": {"description": "The name of a resource", "schema": {"type": "string", "minLength": 1}},
}
_HEADERS: Json = {
    "X-Registry-Offset": {
        "description": "The response reflects the log before this offset",
        "schema": {"type": "integer", "format": "int64"},
    },
    "Warning": {
        "description": "110: the log is unreachable, and the response may be stale; 299: what the text says",
        "schema": {"type": "string"},
    },
    "X-Request-ID": {"description": "The request's, or a generated one", "schema": {"type": "string"}},
}
_EQUAL_TO: Json = {
    "description": "An earlier version of the subject that is equal after normalization",
    "schema": {"type": "integer", "format": "int32"},
}
_AT_OFFSET: Json = {
    "description": "On reads of the past: the offset of the last record that the response reflects, -1 "
    "before the first",
    "schema": {"type": "integer", "format": "int64", "minimum": -1},
}
_LINK: Json = {
    "description": 'Link to the next page, rel="next", with a cursor; absent on the last page',
    "schema": {"type": "string"},
}
_MIN_OFFSET: Json = {
    "name": "X-Registry-Min-Offset",
    "in": "header",
    "description": "Answer only from a store that reflects the log at least to this offset",
    "schema": {"type": "integer", "format": "int64", "minimum": 0},
}
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of a response that the client already has",
    "schema": {"type": "string"},
}
_CONDITIONS: list[Json] = [
    {
        "name": name,
        "in": "header",
        "description": f"Write only if what it changes {what}; otherwise 412",
        "schema": {"type": "string"},
    }
    for name, what in (
        ("If-Match", "exists (*) or has one of these ETags"),
        ("If-None-Match", "does not exist (*) or has none of these ETags"),
    )
]
_ETAG: Json = {
    "description": "The state of what was read, for If-Match",
    "schema": {"type": "string"},
}
_LAST_EVENT_ID: Json = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event received, to resume after it",
    "schema": {"type": "integer", "format": "int64"},
}
_HEADER_REFERENCES = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}
_PATH_PARTS = re.compile(r"\{(\w+)\}")


def document(operations: Iterable[Operation], version: str) -> Json:
    """Return the OpenAPI 3.1 document of ``operations``."""
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Registrar",
            "version": version,
            "description": "A schema registry that speaks Confluent's REST API. Every path is also served "
            "under /contexts/{context}, where subjects, config and mode are those of that context.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": entity_schemas.SCHEMAS | own_schemas.SCHEMAS, "headers": _HEADERS},
    }


# Media types of answers that are not JSON, by their schemas.
_OWN_KINDS = {"Metrics": [PLAIN.decode()], "DuplicatesLine": [JSON_LINES.decode()]}


def _operation(operation: Operation) -> Json:
    found: Json = {
        "operationId": "_".join([operation.method.lower(), *re.findall(r"\w+", operation.path)]),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [
            *(_path_parameter(name) for name in _PATH_PARTS.findall(operation.path)),
            *(_query_parameter(parameter) for parameter in operation.parameters),
            *_header_parameters(operation),
        ],
        "responses": _responses(operation),
    }
    if operation.request_schema:
        schema = {"$ref": f"#/components/schemas/{operation.request_schema}"}
        kinds = sorted(kind.decode() for kind in CONSUMED)
        found["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    return found


def _responses(operation: Operation) -> Json:
    more = {"X-Registry-Equal-To": _EQUAL_TO} if operation.extra_headers is not None else {}
    more |= {"X-Registry-At-Offset": _AT_OFFSET} if AT_OFFSET in operation.parameters else {}
    more |= {"Link": _LINK} if CURSOR in operation.parameters else {}
    more |= {"ETag": _ETAG} if operation.tagged else {}
    good: Json = {"description": "Done", "headers": _HEADER_REFERENCES | more}
    if operation.response_schema:
        kinds = ["application/json"] if operation.own else [kind.decode() for kind in PRODUCED]
        kinds = _OWN_KINDS.get(operation.response_schema, kinds)
        reference = {"$ref": f"#/components/schemas/{operation.response_schema}"}
        plain = {"text/plain": {"schema": {"type": "string"}}} if operation.plain else {}
        plain |= {"text/event-stream": {"schema": {"type": "string"}}} if operation.streams else {}
        good["content"] = {kind: {"schema": reference} for kind in kinds} | plain
    out: Json = {str(operation.status): good}
    by_status: dict[int, list[str]] = {}
    for kind in (*operation.errors, *operation.permission.errors):
        status = kind.code if kind.code < 1000 else kind.code // 100
        by_status.setdefault(status, []).append(f"{kind.code}: {kind.template}")
    for status, texts in sorted(by_status.items()):
        out[str(status)] = _error("\n\n".join(texts))
    if operation.response_schema == "Health" and operation.errors:
        out["503"] = {**good, "description": "Not yet, with the reasons"}
    if _may_be_unmodified(operation):
        out["304"] = {"description": "Not modified", "headers": _HEADER_REFERENCES}
    out["default"] = _error("Any other error")
    return out


def _may_be_unmodified(operation: Operation) -> bool:
    """Return true if reads can be 304: the ETag of a webhook, which the node answers, is only for writes."""
    return operation.freshness is Freshness.ON_MISS or (
        operation.tagged and operation.freshness is not Freshness.NEVER
    )


def _error(description: str) -> Json:
    schema = {"$ref": "#/components/schemas/Error"}
    content = {kind.decode(): {"schema": schema} for kind in PRODUCED}
    return {"description": description, "headers": _HEADER_REFERENCES, "content": content}


def _path_parameter(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]}


def _header_parameters(operation: Operation) -> Iterator[Json]:
    if operation.handler is not None and operation.freshness is not Freshness.NEVER:
        yield _MIN_OFFSET
    if operation.streams:
        yield _LAST_EVENT_ID
    if _may_be_unmodified(operation):
        yield _IF_NONE_MATCH
    if operation.conditional:
        yield from _CONDITIONS


def _query_parameter(parameter: Parameter) -> Json:
    schema: Json = dict(_KINDS[parameter.kind])
    if parameter.default not in (None, "", ()):
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "description": parameter.meaning, "schema": schema}


def operations(
    version: str,
    metrics: Callable[[], Awaitable[bytes]] | None,
    hub: Hub | None = None,
    searches: Searches | None = None,
    index: search.Words | None = None,
) -> list[Operation]:
    """Return all operations; ``/metrics`` only if ``metrics`` is given, which returns its body.

    ``hub`` serves the listeners of the change feed; without one, the table only describes it. ``searches``
    finds duplicates. ``index`` has the words of searches.
    """
    found = [
        *_with_tag("Subjects", lists.subject_operations(index)),
        *_with_tag("Subjects", subjects.OPERATIONS),
        *_with_tag("Subjects", registration.OPERATIONS),
        *_with_tag("Subjects", registration.TAG_OPERATIONS),
        *_with_tag("Schemas", lists.SCHEMA_OPERATIONS),
        *_with_tag("Schemas", schemas.OPERATIONS),
        *_with_tag("Compatibility", checks.OPERATIONS),
        *_with_tag("Config and mode", scopes.scope_operations("/{}", "the top level")),
        *_with_tag("Config and mode", scopes.scope_operations("/{}/{{subject}}", "a subject or a context")),
        *_with_tag("Contexts", scopes.CONTEXT_OPERATIONS),
        *_with_tag("Server", server_info.OPERATIONS),
        *_with_tag("Associations", associations.OPERATIONS),
        *_own(server_info.OWN_OPERATIONS),
        *_own(admission.OPERATIONS),
        *_own((*administration.OPERATIONS, administration.AUDIT_OPERATION)),
        *_own(webhooks.OPERATIONS),
        *_own(scopes.STORED_OPERATIONS),
        *_own(lists.ID_OPERATIONS),
        *_own(changes.OPERATIONS),
        *_own(checks.OWN_OPERATIONS),
        *_own(scope_chain.OPERATIONS),
        *_own(changes.operations(hub)),
        *_own(administration.operations(searches)),
        *_own(subjects.OWN_OPERATIONS),
        *_own(timeline.OPERATIONS),
        *_own(summary.OPERATIONS),
        *_own(comparison.OPERATIONS),
        *_own(lookup.OPERATIONS),
        *_own(search.operations(index)),
        *_own(usage.OPERATIONS),
        *_own(version_usage.OPERATIONS),
        *_own(askers.OPERATIONS),
    ]
    if metrics is not None:
        found += _own(
            [_get("/metrics", "Metrics for Prometheus", server_info.metrics_of(metrics), "Metrics")]
        )

    @cache
    def description() -> bytes:
        return orjson.dumps(document(found, version))

    async def api_description(call: Call, backend: Backend) -> Answer:
        return Answer(description())

    found += _own([_get("/openapi.json", "This document", api_description, "OpenApi")])
    return found


def _get(path: str, summary: str, handler: NodeHandler, response_schema: str) -> Operation:
    return Operation(
        method="GET",
        path=path,
        summary=summary,
        permission=OPEN,
        node_handler=handler,
        response_schema=response_schema,
    )


def _with_tag(tag: str, group: Iterable[Operation]) -> list[Operation]:
    return [replace(operation, tag=tag) for operation in group]


def _own(group: Iterable[Operation]) -> list[Operation]:
    return [
        replace(operation, tag="Registrar", own=True, needs_json=operation.method != "GET")
        for operation in group
    ]
