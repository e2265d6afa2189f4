"""The members of answers that verbs rely on; an answer may have more of them."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

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
    """The answer to a registration; older registries tell only the id."""

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
