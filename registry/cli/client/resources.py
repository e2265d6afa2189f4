"""A registry's resources: their paths, and the members of answers and errors that verbs rely on."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, NamedTuple, NotRequired, TypedDict
from urllib.parse import quote

import msgspec


class RegistryError(Exception):
    """A request without a usable answer; the text says what happened, to what, and what to do."""


class Unreachable(RegistryError):
    """No answer of any server: unknown host, nothing listening, wrong protocol, timeout."""


class NotSent(Unreachable):
    """No server could be connected to, so nothing was sent."""


class NotARegistry(RegistryError):
    """An answer that no schema registry gives."""


class BadAddress(RegistryError):
    """An address, credentials or a certificate that cannot be used; nothing was sent."""


class ErrorAnswer(RegistryError):
    """An error that the registry answered with: the HTTP status, its own code, and its message."""

    def __init__(self, status: int, code: int, message: str, advice: str = "") -> None:
        super().__init__(f"{message}{advice}" if message else f"the registry answered {status}{advice}")
        self.status, self.code, self.message = status, code, message

    @property
    def is_unknown_resource(self) -> bool:
        """True if the server has no such resource, as an older or another registry may not."""
        return self.status in (404, 405) and self.code in (404, 405)

    @property
    def is_verdict(self) -> bool:
        """True if the registry understood the request and refused it: repeating it changes nothing."""
        return self.status in (404, 409, 412, 422) and not self.is_unknown_resource


_CONTEXT = re.compile(r":\.[^:]*:")
_VERSION = re.compile(r"[0-9]{1,10}|latest")
LATEST = "latest"
# As plain segments of a path, clients take them for this folder and its parent.
_DOTS: Final = {".": "%2E", "..": "%2E%2E"}


class VersionName(NamedTuple):
    """A subject, and one of its versions by number or as ``latest``; empty if none is named."""

    subject: str
    version: str

    @classmethod
    def parse(cls, text: str) -> VersionName:
        """Parse ``SUBJECT`` or ``SUBJECT:VERSION``; ``:.ctx:SUBJECT`` names a context and no version."""
        context = _CONTEXT.match(text)
        begin = context.end() if context else 0
        subject, _, version = text[begin:].rpartition(":")
        if subject and _VERSION.fullmatch(version):
            return cls(text[:begin] + subject, version)
        return cls(text, "")

    def __str__(self) -> str:
        return f"{self.subject}:{self.version}" if self.version else self.subject


def quote_segment(name: str) -> str:
    """Return a name as one segment of a path. Raises :class:`BadAddress`."""
    try:
        return _DOTS.get(name) or quote(name, safe="")
    except UnicodeEncodeError:
        raise BadAddress(f"the name {name!r} is not UTF-8") from None


def context_prefix(context: str) -> str:
    """Return the beginning of qualified names, ``:.ctx:``, for a context as people give it."""
    name = context.strip(":").lstrip(".")
    return f":.{name}:" if name else ""


def subject_path(subject: str) -> str:
    """Return the path of a subject."""
    return f"/subjects/{quote_segment(subject)}"


def version_path(subject: str, version: int | str) -> str:
    """Return the path of a version."""
    return f"{subject_path(subject)}/versions/{version}"


def scope_path(kind: str, subject: str) -> str:
    """Return the path of the config or mode of a subject, or of everything if ``subject`` is empty."""
    return f"/{kind}/{quote_segment(subject)}" if subject else f"/{kind}"


Config = dict[str, Any]
# Until the year 9999, in ms.
_Time = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]


class Mode(TypedDict):
    """A mode."""

    mode: str


class Reference(TypedDict):
    """A reference of a schema."""

    name: str
    subject: str
    version: int


class Metadata(TypedDict):
    """The metadata of a version."""

    properties: NotRequired[dict[str, str] | None]


class Schema(TypedDict):
    """A schema by its id or guid; what is lacking depends on the registry and its version."""

    schema: str
    schemaType: NotRequired[str | None]
    references: NotRequired[list[Reference] | None]
    metadata: NotRequired[Metadata | None]
    ruleSet: NotRequired[dict[str, Any] | None]
    deleted: NotRequired[bool | None]
    subject: NotRequired[str | None]
    version: NotRequired[int | None]
    id: NotRequired[int | None]
    guid: NotRequired[str | None]


FreeRange = TypedDict("FreeRange", {"from": int, "to": int})


class IdUsage(TypedDict):
    """The use of a context's ids."""

    context: str
    highest: int
    reserved: int
    used: float
    free: list[FreeRange]


class Found(TypedDict):
    """The answer to a look-up of a schema among a subject's versions."""

    version: int
    id: int
    guid: NotRequired[str | None]


class Version(Found):
    """A version of a subject."""

    subject: str
    schema: str
    schemaType: NotRequired[str | None]
    references: NotRequired[list[Reference] | None]
    metadata: NotRequired[Metadata | None]
    ruleSet: NotRequired[dict[str, Any] | None]
    deleted: NotRequired[bool | None]


class Place(TypedDict):
    """A version that has an id."""

    subject: str
    version: int


class Registered(TypedDict):
    """The answer to a registration; older registries return only the id."""

    id: int
    version: NotRequired[int | None]


class Event(TypedDict):
    """A change."""

    offset: int
    time: _Time
    kind: str
    subject: NotRequired[str | None]
    context: NotRequired[str | None]


class Changes(TypedDict):
    """A part of the feed of changes."""

    events: list[Event]
    next: int


class History(TypedDict):
    """The changes of a subject."""

    events: list[Event]
    completeFrom: int


class Node(TypedDict):
    """The state of a node."""

    ready: bool
    ready_for_writes: NotRequired[bool]
    role: str
    epoch: int
    applied: int
    end: int
    digest: str
    primary: NotRequired[str | None]
    reasons: NotRequired[list[str]]
    reasons_for_writes: NotRequired[list[str]]
    peer_problems: NotRequired[list[str]]
    quarantined: NotRequired[int]
    warnings: NotRequired[list[str]]
    invalid_files: NotRequired[list[str]]


class SearchResults(TypedDict):
    """A page of a search."""

    hits: list[dict[str, Any]]
    next: str | None
    cut: bool
    complete: bool
    # From 0 to 1.
    built: NotRequired[float]


class TimelineEntry(TypedDict):
    """A version, and what it changes of the one before it."""

    version: int
    deleted: bool
    ts: NotRequired[_Time]
    principal: NotRequired[str]
    deletedBy: NotRequired[str]
    previous: NotRequired[int]
    previousType: NotRequired[str]
    added: NotRequired[int]
    removed: NotRequired[int]
    changed: NotRequired[int]
    compatible: NotRequired[bool]
    tags: NotRequired[list[str]]
    rules: NotRequired[int]


class Timeline(TypedDict):
    """A page of versions, newest first."""

    versions: list[TimelineEntry]
    next: int | None


class FieldCounts(TypedDict):
    """Numbers of fields that differ between two schemas."""

    added: int
    removed: int
    changed: int


class LevelVerdict(TypedDict):
    """The verdict at a level."""

    compatible: bool


class Change(TypedDict):
    """A change between two schemas."""

    type: str
    path: str | None
    direction: str
    compatible: bool
    fix: NotRequired[str | None]


class Explanation(TypedDict):
    """The verdict of each level on two schemas, and the changes between them."""

    levels: dict[str, LevelVerdict]
    changes: list[Change]


class Delivery(TypedDict):
    """The end of a test of a webhook."""

    delivered: bool
    took_ms: int
    status: NotRequired[int | None]
    error: NotRequired[str]
