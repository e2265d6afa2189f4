"""The table of queries of the node, and its handlers."""

from __future__ import annotations

from registry.api.node_queries import QUERIES
from registry.node.node_service import HANDLERS


def test_each_query_has_a_number_of_its_own_and_a_handler() -> None:
    assert len({each.number for each in QUERIES}) == len(QUERIES)
    assert {number: query for number, (query, _) in HANDLERS.items()} == {
        each.number: each for each in QUERIES
    }
