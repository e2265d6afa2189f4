"""The table of queries of the node, and its handlers."""

from __future__ import annotations

from registry.api import node_queries
from registry.api.backend import NodeQuery
from registry.domain.errors import OUTCOME_UNKNOWN
from registry.node.node_service import HANDLERS


def test_each_query_has_a_number_of_its_own_and_a_handler() -> None:
    rows = [each for each in vars(node_queries).values() if isinstance(each, NodeQuery)]
    assert len({each.number for each in rows}) == len(rows) > 5
    assert {number: query for number, (query, _) in HANDLERS.items()} == {each.number: each for each in rows}


def test_a_read_that_is_not_answered_never_says_that_a_write_may_be_done() -> None:
    """Prometheus would get 500 and "the outcome of the write is unknown" for ``/metrics``."""
    lost = OUTCOME_UNKNOWN("The node did not answer in time")
    rows = {name: each for name, each in vars(node_queries).items() if isinstance(each, NodeQuery)}
    unknown = {name for name, each in rows.items() if each.unanswered(lost).code == OUTCOME_UNKNOWN.code}
    assert unknown == {"DELETE_SNAPSHOT", "ADD_ASKS"}
