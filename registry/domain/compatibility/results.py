"""Results of a compatibility check: Confluent's messages, and every change with its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import orjson

from registry.domain.errors import ErrorKind, Passage, RegistryError
from registry.domain.model import Subject
from registry.domain.schemas import Change, InvalidSchema, Part

Reader = Literal["new", "old"]
# The readers that must be able to read the other's data at each level, in the order of reporting.
READERS: Final[Mapping[str, tuple[Reader, ...]]] = {
    "NONE": (),
    "BACKWARD": ("new",),
    "BACKWARD_TRANSITIVE": ("new",),
    "FORWARD": ("old",),
    "FORWARD_TRANSITIVE": ("old",),
    "FULL": ("old", "new"),
    "FULL_TRANSITIVE": ("old", "new"),
}

# Number of changes reported; beyond it only incompatible ones are added.
COMPATIBLE_MAX: Final = 1000

# In place of messages that show schemas that the client may not read.
HIDDEN: Final = "{hidden: 'schemas that you may not read'}"
_PARTLY_HIDDEN: Final = "What concerns schemas that you may not read is not shown."
# Number of subjects that a message names as those whose schemas it shows.
SUBJECTS_MAX: Final = 100

# Says whether a client may read the schemas of a subject.
MayRead = Callable[[Subject], bool]

OTHER_TYPE: Final = "Incompatible because of different schema type"
_DIRECTIONS: Final[Mapping[Reader, str]] = {"new": "BACKWARD", "old": "FORWARD"}
_LOGICAL_READERS: Final[Mapping[str, Reader]] = {"backward": "new", "forward": "old"}
_READ: Final = {
    "BACKWARD": "the new schema has to read what %s wrote",
    "FORWARD": "%s has to read what the new schema writes",
    "": "compared with %s",
}


class Reason(NamedTuple):
    """One of Confluent's messages about an incompatible schema."""

    text: str
    # The subjects whose stored schemas it shows; ``None``: more than :data:`SUBJECTS_MAX`.
    shows: frozenset[Subject] | None = frozenset()


class Incompatible(RegistryError):
    """A registration that is refused for these reasons."""

    def __init__(self, kind: ErrorKind, reasons: Sequence[Reason], *values: object) -> None:
        """``values``: of the template, before the messages."""
        front, back = kind.template.rsplit("%s", 1)
        parts, passages, end = [front % values], [], len(front % values)
        for shows, run in groupby(reasons, lambda each: each.shows):
            begin = end + (2 if len(parts) > 1 else 0)
            parts.append(", ".join(each.text for each in run))
            end = begin + len(parts[-1])
            if shows is None or shows:
                names = sorted(each.qualified for each in shows or ())
                passages.append(Passage(begin, end, names))
        super().__init__(kind.code, parts[0] + ", ".join(parts[1:]) + back, passages)
        self.reasons = reasons


def visible(reasons: Iterable[Reason], may_read: MayRead | None) -> list[str]:
    """Return the messages for a client who may read these subjects; ``None``: all of them."""
    if may_read is None:
        return [each.text for each in reasons]
    found: list[str] = []
    for each in reasons:
        if is_visible(each.shows, may_read):
            found.append(each.text)
        elif found[-1:] != [HIDDEN]:
            found.append(HIDDEN)
    return found


def is_visible(shows: frozenset[Subject] | None, may_read: MayRead) -> bool:
    """Return true if a client may read all schemas that a message shows."""
    return shows is not None and all(map(may_read, shows))


def visible_message(message: str, passages: Sequence[Passage], may_read: MayRead) -> str:
    """Return the message of an :class:`Incompatible` for a client who may read these subjects."""
    parts, done = [], 0
    for begin, end, subjects in passages:
        if not subjects or not all(may_read(Subject.parse(each)) for each in subjects):
            parts += [message[done:begin], HIDDEN]
            done = end
    return "".join((*parts, message[done:]))


class ReportedChange(NamedTuple):
    """A change, and the comparison that found it."""

    change: Change
    # The effective level.
    level: str
    # ``BACKWARD`` or ``FORWARD``: the half of the level; empty if the change concerns both.
    direction: str
    # The version compared with; ``None`` if it is not registered.
    version: int | None


class CompatibilityResult(NamedTuple):
    """The result of a check; compatible if there are no messages."""

    messages: Sequence[str]
    level: str
    changes: Sequence[ReportedChange]


def direction(reader_is: Reader | None) -> str:
    """Return the half of a level in which ``reader_is`` the reader."""
    return "" if reader_is is None else _DIRECTIONS[reader_is]


def _refusal(kind: str, path: str, message: str, fix: str, old: str = "", new: str = "") -> Change:
    return Change(
        kind, path, False, message, Part(old) if old else None, Part(new) if new else None, fix
    )  # fmt: skip


def other_type(old: str, new: str) -> Change:
    """Return the change for a schema whose type differs from the previous version's."""
    fix = f"register a schema of type {old}, or use another subject"
    return _refusal("SCHEMA_TYPE_CHANGED", "", OTHER_TYPE, fix, old, new)


def unexpected_change(message: str) -> Change:
    """Return the change for a comparison that ended without a result."""
    fix = "correct the invalid schema, or set the level to NONE for this registration"
    return _refusal("UNEXPECTED_EXCEPTION", "", message, fix)


def reader_of(logical: str) -> Reader | None:
    """Return the reader in the direction of a report about logical types; None if it is about one schema."""
    return _LOGICAL_READERS.get(logical)


def not_logical(error: InvalidSchema) -> Change:
    """Return the change for a schema that no table can hold."""
    message = f"Schema cannot be represented as a logical type: {error}"
    fix = "leave out the part that no table can hold, or set another compatibilityPolicy"
    return _refusal("NO_LOGICAL_TYPE", "", message, fix)._replace(reason=str(error))


def no_longer_reserved(name: str) -> Change:
    """Return the change for a name that is no longer reserved (``confluent:reserved``)."""
    message = (
        f"The new schema has reserved field {name} removed from its metadata which is present in the old "
        "schema's metadata."
    )
    fix = f"keep `{name}` among the reserved names in the metadata"
    return _refusal("RESERVED_FIELD_REMOVED", "", message, fix, old=name)


def reserved_field(name: str) -> Change:
    """Return the change for a field with a reserved name."""
    message = f"The new schema has field that conflicts with the reserved field {name}."
    return _refusal("FIELD_CONFLICTS_WITH_RESERVED_FIELD", "", message, f"rename `{name}`", new=name)


def of_invalid(message: str) -> CompatibilityResult:
    """Return the result for a text that is not a valid schema."""
    change = _refusal("INVALID_SCHEMA", "", message, "correct the schema as the message says")
    return CompatibilityResult([message], "", [ReportedChange(change, "", "", None)])


def bare(reasons: Sequence[Reason]) -> bytes:
    """Return a ``CompatibilityCheckResponse`` without reasons (Confluent 8.x)."""
    return orjson.dumps({"is_compatible": not reasons})


def json(result: CompatibilityResult) -> bytes:
    """Return a ``CompatibilityCheckResponse`` with Confluent's messages and ``changes``, an extension."""
    found = {"is_compatible": not result.messages, "messages": result.messages}
    return orjson.dumps({**found, "changes": [change_entity(each) for each in result.changes]})


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
