"""Outcomes of a batch whose records may or may not be in the log."""

from __future__ import annotations

import pytest

from registry.domain.commands import NotPrimary, Refused, Unknown
from registry.log.contract import OutcomeUnknown
from registry.node.write.batch import Planned
from registry.node.write.batch_writer import in_doubt, not_applied, outcome_of

ERROR = OutcomeUnknown("no answer")
REFUSED = Refused(40401, "Subject 's' not found.")
WRITE, NOTHING_TO_WRITE = Planned(b"{}", 0, 1), Planned(b"{}", 1, 1)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_write_in_doubt_is_unknown_whoever_else_may_write(fenced: bool) -> None:
    outcome = in_doubt(WRITE, ERROR, fenced=fenced, repeats=True)
    assert isinstance(outcome, Unknown)
    assert outcome.repeats


@pytest.mark.parametrize("plan", [REFUSED, NOTHING_TO_WRITE])
def test_what_was_decided_beside_a_write_in_doubt_is_decided_again_by_the_next_primary(
    plan: Refused | Planned,
) -> None:
    assert in_doubt(plan, ERROR, fenced=True, repeats=True) == NotPrimary()


def test_a_refusal_stands_where_no_other_node_can_write() -> None:
    assert in_doubt(REFUSED, ERROR, fenced=False, repeats=False) == REFUSED
    assert in_doubt(NOTHING_TO_WRITE, ERROR, fenced=False, repeats=False) == NotPrimary()


def test_what_is_appended_and_not_applied_is_unknown_and_a_refusal_stays_one() -> None:
    assert isinstance(not_applied(WRITE, ERROR, repeats=True), Unknown)
    assert not_applied(REFUSED, ERROR, repeats=True) == outcome_of(REFUSED, 0) == REFUSED
