"""The route table: all operations that are served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import cache

import orjson

from registry.duplicates.contract import Searches
from registry.feed.hub import Hub

from . import (
    administration,
    admission,
    associations,
    changes,
    checks,
    lists,
    openapi,
    registration,
    schemas,
    scope_chain,
    scopes,
    server_info,
    subjects,
    webhooks,
)
from .answers import Answer
from .backend import Backend
from .operations import Call, NodeHandler, Operation
from .permissions import OPEN


def operations(
    version: str,
    metrics: Callable[[], Awaitable[bytes]] | None,
    hub: Hub | None = None,
    searches: Searches | None = None,
) -> list[Operation]:
    """Return all operations; ``/metrics`` only if ``metrics`` is given, which returns its body.

    ``hub`` serves the listeners of the change feed; without one, the table only describes it. ``searches``
    finds duplicates.
    """
    found = [
        *_with_tag("Subjects", lists.SUBJECT_OPERATIONS),
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
        *_own(administration.OPERATIONS),
        *_own(webhooks.OPERATIONS),
        *_own(scopes.STORED_OPERATIONS),
        *_own(lists.ID_OPERATIONS),
        *_own(changes.OPERATIONS),
        *_own(checks.OWN_OPERATIONS),
        *_own(scope_chain.OPERATIONS),
        *_own(changes.operations(hub)),
        *_own(administration.operations(searches)),
        *_own(subjects.OWN_OPERATIONS),
    ]
    if metrics is not None:
        found += _own(
            [_get("/metrics", "Metrics for Prometheus", server_info.metrics_of(metrics), "Metrics")]
        )

    @cache
    def described() -> bytes:
        return orjson.dumps(openapi.document(found, version))

    async def api_description(call: Call, backend: Backend) -> Answer:
        return Answer(described())

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
