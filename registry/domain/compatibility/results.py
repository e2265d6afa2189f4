"""Results of a compatibility check: Confluent's messages, and every change with its fix.

Both show only what the client may see; :mod:`.printing` makes the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple

from registry.domain.errors import ErrorKind, Passage, RegistryError
from registry.domain.lookup.registration import Content
from registry.domain.model import Subject
from registry.domain.parsing.stored import subjects_used
from registry.domain.queries import entities
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View
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
# Number of subjects that a message names as those whose schemas it shows.
SUBJECTS_MAX: Final = 100

# Says whether a client may read the schemas of a subject.
MayRead = Callable[[Subject], bool]

OTHER_TYPE: Final = "Incompatible because of different schema type"
_DIRECTIONS: Final[Mapping[Reader, str]] = {"new": "BACKWARD", "old": "FORWARD"}
_LOGICAL_READERS: Final[Mapping[str, Reader]] = {"backward": "new", "forward": "old"}


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


class ChangeRecorder:
    """The changes from earlier versions to a content; none if the check does not explain."""

    def __init__(
        self, view: View, content: Content, level: str, *, explains: bool, may_read: MayRead | None
    ) -> None:
        self.changes: Final[list[ReportedChange]] = []
        self._view = view
        self._content = content
        self._level = level
        self._explains = explains
        self._may_read = may_read
        self._shown: dict[int, frozenset[Subject] | None] = {}

    def add(
        self,
        change: Change,
        reader_is: Reader | None,
        old: Registered | None,
        shows: frozenset[Subject] | None = frozenset(),
    ) -> None:
        """Add a change; ``shows``: as in :class:`Reason`, without ``old`` itself."""
        if not self._explains or (change.compatible and len(self.changes) >= COMPATIBLE_MAX):
            return
        if self._may_read is not None and old is not None:
            if not is_visible(shows, self._may_read):
                return
            if not self._may_read(old.subject):
                change = change._replace(old=None)
        version = None if old is None else old.version
        self.changes.append(ReportedChange(change, self._level, direction(reader_is), version))

    def shows(self, old: Registered) -> frozenset[Subject] | None:
        """Return the subjects whose schemas the differences from a version show: what both refer to."""
        if old.version not in self._shown:
            listed = [*entities.references(old.row), *self._content.references]
            self._shown[old.version] = _subjects(subjects_used(self._view, old.subject.context, listed))
        return self._shown[old.version]


def _subjects(used: Iterable[Subject]) -> frozenset[Subject] | None:
    """Return the subjects as :class:`Reason` has them."""
    found: set[Subject] = set()
    try:
        for each in used:
            found.add(each)
            if len(found) > SUBJECTS_MAX:
                return None
    except InvalidSchema:  # there are too many schemas to look at
        return None
    return frozenset(found)


class CompatibilityResult(NamedTuple):
    """The result of a check; compatible if there are no messages."""

    messages: Sequence[str]
    level: str
    changes: Sequence[ReportedChange]
    # In words, which versions were compared, if the level is for those in use.
    compared: str = ""


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
