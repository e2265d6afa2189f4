"""The table of queries of the node, and its handlers."""

from __future__ import annotations

from registry.api import node_queries
from registry.api.backend import NodeQuery
from registry.node.node_service import HANDLERS


def test_each_query_has_a_number_of_its_own_and_a_handler() -> None:
    rows = [each for each in vars(node_queries).values() if isinstance(each, NodeQuery)]
    assert len({each.number for each in rows}) == len(rows) > 5
    assert {number: query for number, (query, _) in HANDLERS.items()} == {each.number: each for each in rows}
