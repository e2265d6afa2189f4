"""Answers with the result of a compatibility check: as JSON, and as a readable report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from .results import HIDDEN, CompatibilityResult, Reason, ReportedChange

_PARTLY_HIDDEN: Final = "What concerns schemas that you may not read is not shown."
_READ: Final = {
    "BACKWARD": "the new schema has to read what %s wrote",
    "FORWARD": "%s has to read what the new schema writes",
    "": "compared with %s",
}


def bare(reasons: Sequence[Reason]) -> bytes:
    """Return a ``CompatibilityCheckResponse`` without reasons (Confluent 8.x)."""
    return orjson.dumps({"is_compatible": not reasons})


def json(result: CompatibilityResult) -> bytes:
    """Return a ``CompatibilityCheckResponse`` with Confluent's messages.

    ``changes`` and ``compared`` are extensions.
    """
    found: dict[str, Any] = {"is_compatible": not result.messages, "messages": result.messages}
    found |= {"changes": [change_entity(each) for each in result.changes]}
    return orjson.dumps({**found, "compared": result.compared} if result.compared else found)


def change_entity(reported: ReportedChange) -> dict[str, Any]:
    """Return a change in the API's form; ``old`` and ``new`` are ``null`` if there is no such part.

    ``engine`` and ``reason`` are left out where a format's own rules found the change.
    """
    change = reported.change
    said = {"engine": change.engine, "reason": change.reason}
    return {
        "type": change.type,
        "path": change.path,
        "old": None if change.old is None else change.old.text,
        "new": None if change.new is None else change.new.text,
        "level": reported.level,
        "direction": reported.direction,
        "versionCompared": reported.version,
        "compatible": change.compatible,
        "fix": change.fix,
        **{name: value for name, value in said.items() if value},
    }


def text(result: CompatibilityResult, subject: str) -> bytes:
    """Return the result as a readable report: the outcome, then each change with its fix and both lines."""
    at = f" at {result.level}" if result.level else ""
    word = "Incompatible" if result.messages else "Compatible"
    rest = ["", _PARTLY_HIDDEN] if HIDDEN in result.messages else []
    rest += ["", result.compared] if result.compared else []
    return lines([f"{word}: subject {subject}{at}", *change_lines(result.changes), *rest])


def change_lines(changes: Sequence[ReportedChange]) -> Iterator[str]:
    """Yield the lines of a readable report: incompatible changes first, then the others."""
    harmful = [each for each in changes if not each.change.compatible]
    harmless = _without_repeats(changes, {each.change.path for each in harmful})
    for number, each in enumerate(harmful, 1):
        yield ""
        yield f"{number}. {_headline(each)}"
        yield from _parts(each)
        has_parts = each.change.old is not None or each.change.new is not None
        if each.change.path and not has_parts:
            yield f"   {each.change.message}"
        yield f"   fix: {each.change.fix}" if each.change.fix else f"   {each.change.message}"
    if harmless:
        yield ""
        yield "Compatible changes:"
    for each in harmless:
        yield f" - {_headline(each)}"
        yield from _parts(each)


def _without_repeats(changes: Sequence[ReportedChange], paths: set[str]) -> list[ReportedChange]:
    """Return the compatible changes, each once even if found in both directions."""
    found: dict[tuple[str, str], ReportedChange] = {}
    for each in changes:
        if each.change.compatible and each.change.path not in paths:
            found.setdefault((each.change.type, each.change.path), each)
    return list(found.values())


def _headline(reported: ReportedChange) -> str:
    change = reported.change
    where = f" at {change.path}" if change.path else ""
    if change.type == "INVALID_SCHEMA":
        return f"{change.type}: {change.message}"
    if change.engine and not reported.direction:  # it is about the new schema alone
        return f"{change.type}{where}"
    other = "the old schema" if reported.version is None else f"version {reported.version}"
    return f"{change.type}{where} ({_READ[reported.direction] % other})"


def _parts(reported: ReportedChange) -> Iterator[str]:
    if reported.change.old is None and reported.change.new is None:
        return
    for name, part in (("old", reported.change.old), ("new", reported.change.new)):
        if part is not None:
            line = str(part.line) if part.line else "-"
            yield f"   {name} {line:>5} | {part.shown or part.text}"
        elif reported.change.path:
            yield f"   {name}     - | (nothing)"


def lines(texts: Sequence[str]) -> bytes:
    """Return the texts as lines."""
    return ("\n".join(texts) + "\n").encode(errors="replace")
