"""Findings of an examination."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """Severities of findings, the worst first."""

    # Something does not work.
    ERROR = "error"
    # Something will not work one day, or data or access is at risk.
    WARNING = "warning"
    # It could not be examined.
    UNKNOWN = "unknown"
    FINE = "fine"


class Finding(NamedTuple):
    """One thing that was examined."""

    severity: Severity
    # The part of the registry: a word or an address.
    about: str
    text: str
    # What to do; empty if the text says it, or nothing is to be done.
    advice: str = ""


def error(about: str, text: str, advice: str = "") -> Finding:
    """Return a finding about something that does not work."""
    return Finding(Severity.ERROR, about, text, advice)


def warning(about: str, text: str, advice: str = "") -> Finding:
    """Return a finding about a risk."""
    return Finding(Severity.WARNING, about, text, advice)


def unknown(about: str, text: str, advice: str = "") -> Finding:
    """Return a finding about something that could not be examined."""
    return Finding(Severity.UNKNOWN, about, text, advice)


def fine(about: str, text: str) -> Finding:
    """Return a finding about something that is as it should be."""
    return Finding(Severity.FINE, about, text)


def verdict(findings: Iterable[Finding]) -> Severity:
    """Return the worst severity; an error or a warning decides before what is unknown."""
    found = {each.severity for each in findings}
    return next((each for each in Severity if each in found), Severity.FINE)


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with the worst first."""
    order = list(Severity)
    return sorted(findings, key=lambda each: order.index(each.severity))
