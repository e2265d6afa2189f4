"""Outcomes of the commands of a batch, from their plans and what became of the batch's records."""

from __future__ import annotations

from registry.domain.commands import Done, NotPrimary, Outcome, Refused, Unknown
from registry.domain.errors import STORE_FAILED, UNAVAILABLE, ErrorKind, outcome_unknown
from registry.log.contract import ForeignLog, LogError

from .batch import Doubtful, Plan, Planned, Postponed


def outcome_of(plan: Plan, first: int) -> Outcome | Postponed:
    """Return the outcome if the batch's records are applied; the log has them from offset ``first`` on."""
    match plan:
        case Planned(reply, _, stop):
            return Done(reply, first + stop)
        case Doubtful():
            return Unknown(outcome_unknown("The write was done before, but its reply is lost"))
    return plan


def not_applied(plan: Plan, error: Exception, *, repeats: bool) -> Outcome | Postponed:
    """Return the outcome if the batch's records were appended but could not be applied."""
    return unknown(error, repeats=repeats) if isinstance(plan, Planned) else outcome_of(plan, 0)


def in_doubt(plan: Plan, error: LogError, *, fenced: bool, repeats: bool) -> Outcome:
    """Return the outcome if it is unknown whether the batch's records were appended."""
    if isinstance(plan, Planned) and plan.writes:
        return unknown(error, repeats=repeats)
    return unproven(plan, NotPrimary(), fenced=fenced)


def unproven(plan: Plan, instead: Outcome, *, fenced: bool) -> Outcome:
    """Return the outcome of a command whose batch is not known to be appended.

    A refusal is valid if no other node can write (not ``fenced``). A plan is not: it may depend on the
    batch's records.
    """
    return plan if isinstance(plan, Refused) and not fenced else instead


def unknown(error: Exception, *, repeats: bool) -> Unknown:
    """Return the outcome of a write that the log did not confirm; ``repeats`` as in :class:`Unknown`."""
    return Unknown(outcome_unknown(f"The log did not confirm the write ({error})"), repeats=repeats)


def kind_of(error: LogError) -> ErrorKind:
    """Return the kind of error to reply with; 503 is reserved for conditions specific to this registry."""
    return UNAVAILABLE if isinstance(error, ForeignLog) else STORE_FAILED
