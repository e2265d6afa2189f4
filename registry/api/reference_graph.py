"""``GET /subjects/{subject}/versions/{version}/graph``: references in both directions."""

from __future__ import annotations

from typing import Any

from registry.domain.queries import by_subject, entities, reference_graph
from registry.domain.queries.reference_graph import Graph, Node
from registry.domain.queries.sorting import Search
from registry.domain.rows.view import View
from registry.security.access import Permission

from .answers import json_answer
from .operations import VERSION_MISSING, Call, Operation, PendingSearch
from .parameters import limit, number
from .permissions import on_subject

NODES_MAX = 1000


def get_graph(call: Call, view: View) -> PendingSearch[Graph]:
    """Return the versions that a version uses, directly or not, and those that use it."""
    wanted, most = by_subject.parse_version(call.path["version"]), limit(call.args, NODES_MAX)

    def search(view: View) -> Search[Graph]:
        start = yield from by_subject.find_version(view, call.subject, wanted, deleted=True)
        return (yield from reference_graph.graph(view, start, most))

    return PendingSearch(search, lambda _, found: json_answer(_entity(found)))


def _entity(found: Graph) -> dict[str, Any]:
    return {
        "nodes": [_node(each) for each in found.nodes],
        "edges": [{"from": user, "to": used, "name": name} for user, used, name in found.edges],
        "complete": found.complete,
    }


def _node(node: Node) -> dict[str, Any]:
    place = {"subject": node.subject.qualified, "version": node.version, "depth": node.depth}
    if node.found is None:
        return {**place, "missing": True}
    row = node.found.row
    kind = entities.schema_type(row)
    return {**place, "id": row.schema_id, "schemaType": kind, "deleted": row.deleted}


OPERATIONS = (
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/graph",
        summary="The direct and indirect references of a version, in both directions",
        permission=on_subject(Permission.READ),
        handler=get_graph,
        response_schema="ReferenceGraph",
        parameters=(number("limit", "Maximum number of versions, at most 1000", 200),),
        errors=VERSION_MISSING,
    ),
)
