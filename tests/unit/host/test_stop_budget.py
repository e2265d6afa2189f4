"""The table of a stop's deadlines adds up."""

from __future__ import annotations

from typing import Final

from registry.host import stop_budget as budget

# After this time ``docker stop`` kills, and so do platforms that nobody has told to wait longer.
DOCKER_S: Final = 10.0


def test_the_steps_of_each_process_fit_into_the_time_after_which_it_is_killed() -> None:
    reader = budget.REQUESTS_S + budget.READER_SINKS_S
    node = (
        *(budget.PEERS_S, budget.FORWARDING_S, budget.ELECTION_S, budget.WRITER_S, budget.THREADS_S),
        budget.NODE_SINKS_S,
    )
    assert reader + budget.END_S <= budget.READERS_S
    assert sum(node) + budget.END_S <= budget.NODE_S
    assert budget.OPENING_S + budget.NODE_SINKS_S + budget.END_S <= budget.NODE_S
    assert budget.READERS_S + budget.NODE_S <= budget.STOP_S < DOCKER_S


def test_the_node_has_answered_its_readers_and_resigned_before_they_end() -> None:
    assert budget.GIVE_UP_S + budget.FORWARDING_S < budget.REQUESTS_S
    assert budget.RESIGN_S < budget.REQUESTS_S
