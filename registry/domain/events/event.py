"""Events: the entries of the change feed, each derived from one record, and the filter of a listener."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from registry.domain.model import Subject
from registry.domain.queries.subject_order import Prefix


class Kind(StrEnum):
    """The kinds of events, by what the record says; a kind never changes its name."""

    # A version is registered, or its record is written again: restored, or with other tags.
    VERSION_REGISTERED = "version_registered"
    VERSION_SOFT_DELETED = "version_soft_deleted"
    VERSION_DELETED = "version_deleted"
    # All versions up to ``version`` are soft-deleted.
    SUBJECT_SOFT_DELETED = "subject_soft_deleted"
    # The mark of such a delete is removed; only other registries do that.
    SUBJECT_RESTORED = "subject_restored"
    # Versions that were soft-deleted before are forgotten; and the removal of that mark.
    SUBJECT_CLEARED = "subject_cleared"
    SUBJECT_UNCLEARED = "subject_uncleared"
    CONFIG_SET = "config_set"
    CONFIG_DELETED = "config_deleted"
    MODE_SET = "mode_set"
    MODE_DELETED = "mode_deleted"
    CONTEXT_CREATED = "context_created"
    CONTEXT_DELETED = "context_deleted"
    ASSOCIATION_SET = "association_set"
    ASSOCIATION_DELETED = "association_deleted"
    # A node became primary; the offset is its epoch.
    EPOCH_STARTED = "epoch_started"
    SNAPSHOT_REQUESTED = "snapshot_requested"
    # The end of the records that continue another log.
    LOG_RESEEDED = "log_reseeded"
    # The record makes no sense, and what its key held before is gone.
    QUARANTINED = "quarantined"


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the change feed. Members unknown for a record are absent.

    A record with a context and no subject is about the context itself, in the default context also about the
    top level; one with neither is about the cluster.
    """

    offset: int
    # When the record was appended, in ms since the epoch.
    time: int
    kind: Kind
    context: str | None = None
    # The qualified name; absent for the context itself.
    subject: str | None = None
    version: int | None = None
    id: int | None = None
    # The schema's type.
    type: str | None = None
    # The compatibility level that a config sets.
    level: str | None = None
    mode: str | None = None
    resource_name: str | None = msgspec.field(default=None, name="resourceName")
    resource_namespace: str | None = msgspec.field(default=None, name="resourceNamespace")
    resource_type: str | None = msgspec.field(default=None, name="resourceType")
    association_type: str | None = msgspec.field(default=None, name="associationType")
    # Why the record is quarantined.
    reason: str | None = None
    # The name of the user or service whose request wrote the record.
    principal: str | None = None

    @property
    def owner(self) -> Subject | None:
        """The subject or context that the event is about; ``None``: the cluster."""
        if self.subject is not None:
            return Subject.parse(self.subject)
        return None if self.context is None else Subject(self.context, "")


# Prints an event as JSON, without absent members; and reads it again.
encode_event = msgspec.json.Encoder().encode
decode_event = msgspec.json.Decoder(Event).decode


class Filter(NamedTuple):
    """The events that a listener wants: of some kinds, and of the subjects under a prefix.

    Hashable, so that listeners with the same filter share what is made for it.
    """

    # ``None``: all kinds.
    kinds: frozenset[Kind] | None = None
    # ``None``: all subjects, contexts and the cluster. A context has the empty name: a prefix matches it if
    # it matches all of its subjects.
    subjects: Prefix | None = None

    def admits(self, event: Event) -> bool:
        """Return true if the listener wants the event."""
        if self.kinds is not None and event.kind not in self.kinds:
            return False
        if self.subjects is None:
            return True
        owner = event.owner
        return owner is not None and self.subjects.admits(owner)


def parse_kinds(names: list[str]) -> frozenset[Kind]:
    """Return the kinds of these names. Raises :class:`ValueError` for a name that is none."""
    return frozenset(map(Kind, names))


EVERYTHING = Filter()
