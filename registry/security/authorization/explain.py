"""Explanation of a decision by the rule that makes it."""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.model import Subject
from registry.domain.principal import Principal
from registry.security.access import Permission

from .rules import Rules


class Explanation(NamedTuple):
    """A decision and its reason."""

    allowed: bool
    reason: str


def explain(rules: Rules, principal: Principal, permission: Permission, subject: Subject) -> Explanation:
    """Return the decision, and the first rule that allows it or the reason why none does."""
    rule = rules.deciding(principal, permission, subject)
    if rule is not None:
        pattern = next(each.text for each in rule.subjects if each.covers(subject))
        place = f"[[allow]] number {rule.number}" + (f", line {rule.line}" if rule.line else "")
        return Explanation(True, f"allowed by {place}: subjects {pattern!r}")
    mine = rules.concerning(principal)
    if not mine:
        return Explanation(False, "denied: no rule names this principal or its groups")
    if not any(permission in each.permissions for each in mine):
        numbers = ", ".join(str(each.number) for each in mine[:_SHOWN])
        return Explanation(
            False, f"denied: no rule for this principal allows {permission.value!r} (its rules: {numbers})"
        )
    able = [str(each.number) for each in mine if permission in each.permissions]
    shown = ", ".join(able[:_SHOWN])
    return Explanation(
        False, f"denied: the rules that allow {permission.value!r} (number {shown}) are for other subjects"
    )


_SHOWN = 20
