"""Associations of resources with subjects: how they are stored, found, filtered and printed.

A resource (a Kafka topic) uses a subject for its keys or its values. A *strong* association owns its subject:
it is the subject's only association, and deleting it can delete the subject. A *weak* one shares an existing
subject. A *frozen* association cannot be changed, only deleted with its subject (Confluent 8.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from registry.domain.log_format import subject_values
from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import TENANT, AssociationKey, Entry, association_key
from registry.domain.model import Subject
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .walks import in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationRules:
    """The rules of one release; those that all releases share are not listed here."""

    # Strong implies frozen: a strong association that is not frozen is refused (42212).
    strong_is_frozen: bool = False
    # All associations of a resource have the same lifecycle (42212).
    one_lifecycle: bool = False
    # An upsert creates only weak associations, without a schema (42212); strong ones need a subject in IMPORT
    # mode.
    upsert_creates_weak: bool = False
    # Versions must not refer to a subject with a strong association (42205, 42206).
    strong_excludes_references: bool = False
    # Adjacent operations of one kind in a batch are decided together, and a request may name each type only
    # once. Otherwise each operation is decided on its own.
    batch_in_runs: bool = False
    # Answers omit `frozen` if it follows from the lifecycle.
    omits_implied_frozen: bool = False


# By the values of the setting `confluent_version`. "8.3" covers 8.2.2 to 8.3.1.
ASSOCIATION_RULES = {
    "8.4": AssociationRules(
        strong_is_frozen=True,
        one_lifecycle=True,
        upsert_creates_weak=True,
        strong_excludes_references=True,
        batch_in_runs=True,
        omits_implied_frozen=True,
    ),
    "8.3": AssociationRules(),
}
RELEASED = ASSOCIATION_RULES["8.4"]


# Lifecycles; ``NONE`` only in filters, for subjects without associations.
STRONG, WEAK, NONE = "STRONG", "WEAK", "NONE"
# The only kind of resource (Confluent 8.x).
RESOURCE_TYPE = "topic"
ASSOCIATION_TYPES = ("key", "value")
ONE_RESOURCE = (
    "All associations must have the same resourceName, resourceNamespace, resourceId, and resourceType."
)
# More associations than a subject with a strong one can have.
_FEW = len(ASSOCIATION_TYPES) + 1
# Stands for any namespace of a resource, and in paths for any name.
ANY = "-"


class Association(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A stored association with the members of ``Association`` in their order (Confluent 8.x)."""

    # Qualified.
    subject: str = ""
    guid: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None
    resource_id: str | None = None
    resource_type: str | None = None
    association_type: str | None = None
    lifecycle: str | None = None
    frozen: bool | None = None
    # ms since the epoch.
    create_ts: int = 0
    update_ts: int = 0

    @property
    def strong(self) -> bool:
        """True if it owns its subject; an association without a lifecycle does not."""
        return self.lifecycle == STRONG

    @property
    def is_frozen(self) -> bool:
        """True if it must not be changed; without the member it may (Confluent 8.4)."""
        return bool(self.frozen)

    @property
    def created_ms(self) -> int:
        """The time of creation in ms since the epoch; 0 if it is not stored yet."""
        return subject_values.creation_time(self.guid or "", self.create_ts)

    @property
    def key(self) -> AssociationKey:
        """The key of its records."""
        named = (self.resource_name, self.resource_namespace, self.resource_type, self.association_type)
        return AssociationKey(Subject.parse(self.subject), *(each or None for each in named))

    def entry(self) -> Entry:
        """Return its record in Confluent's bytes: always with ``frozen``, later ones with ``createTs``."""
        key = self.key
        members = {
            "guid": self.guid,
            "tenant": TENANT,
            "resourceName": key.resource_name,
            "resourceNamespace": key.resource_namespace,
            "resourceId": self.resource_id,
            "resourceType": key.resource_type,
            "associationType": key.association_type,
            "subject": self.subject,
            "lifecycle": self.lifecycle,
            "frozen": self.is_frozen,
            "createTs": self.created_ms or None,
        }
        value = dumps({name: value for name, value in members.items() if value is not None and value != ""})
        return Entry(association_key(key), value)


_decode = msgspec.json.Decoder(Association).decode


class Filter(NamedTuple):
    """Criteria for associations; those that are ``None`` or empty match everything."""

    resource_type: str | None = None
    association_types: tuple[str, ...] = ()
    lifecycles: tuple[str, ...] = ()

    @property
    def has_criteria(self) -> bool:
        """True if there is any criterion; an empty resource type is one, and matches nothing."""
        return self.resource_type is not None or bool(self.association_types or self.lifecycles)

    def admits(self, found: Association) -> bool:
        """Return true if an association matches."""
        lifecycle = STRONG if found.strong else WEAK
        return self._admits_kind(found) and (not self.lifecycles or lifecycle in self.lifecycles)

    def _admits_kind(self, found: Association) -> bool:
        kind = found.association_type or ""
        return (self.resource_type is None or found.resource_type == self.resource_type) and (
            not self.association_types or kind in self.association_types
        )

    def select(self, found: Iterable[Association]) -> list[Association]:
        """Return the associations that match."""
        return list(filter(self.admits, found))

    def of_subject(self, view: View, subject: Subject) -> list[Association] | None:
        """Return the matching associations of a subject; ``None`` if the subject itself does not match.

        With ``NONE`` among the lifecycles, subjects without an association of the wanted type match
        (Confluent 8.3.1).
        """
        if not self.has_criteria:
            return []
        kind = [each for each in of_subject(view, subject) if self._admits_kind(each)]
        if not kind:
            return [] if NONE in self.lifecycles else None
        return self.select(kind) or None


SortKey = tuple[str, str, str, str, str]  # resource's name, namespace and type, then own type and subject


def sort_key(found: Association) -> SortKey:
    """Return the sort key of an association: resource, type and subject (Confluent 8.x)."""
    return (
        found.resource_name or "",
        found.resource_namespace or "",
        found.resource_type or "",
        found.association_type or "",
        found.subject,
    )


def of_subject(view: View, subject: Subject) -> list[Association]:
    """Return all associations of a subject, in order."""
    return sorted(walk_of_subject(view, subject), key=sort_key)


def walk_of_subject(view: View, subject: Subject) -> Iterator[Association]:
    """Yield all associations of a subject, in any order."""
    return (_decode(value) for _, value in scan(view, layout.scope_key(layout.ASSOCIATION, subject)))


def some_of_subject(view: View, subject: Subject) -> list[Association]:
    """Return associations of a subject: all if one of them is strong, else a few.

    Besides a strong one there can only be that of the same resource's keys or values, so a few suffice.
    """
    return list(islice(walk_of_subject(view, subject), _FEW))


def subject_of(value: bytes) -> Subject:
    """Return the subject of an association's row."""
    return Subject.parse(_decode(value).subject)


def list_anywhere(
    view: View, name: str, namespace: str, wanted: Filter, after: SortKey | None = None
) -> Iterator[Association | None]:
    """Walk as :func:`list_named`, but examine the associations of all subjects in the view for each page.

    For views of a part of the subjects, whose associations are scattered among those of other resources.
    """

    def is_named(found: Association) -> bool:
        return name in (ANY, found.resource_name or "") and namespace in (ANY, found.resource_namespace or "")

    def matches() -> Iterator[Association | None]:
        for _, value in scan(view, layout.ASSOCIATION):
            each = _decode(value)
            yield each if is_named(each) and wanted.admits(each) else None

    return in_order(matches, sort_key, after)


def with_key(view: View, key: AssociationKey) -> Association | None:
    """Return the association whose records have this key."""
    value = view.get(layout.association_key(key.subject, association_key(key)))
    return None if value is None else _decode(value)


def of_resource_id(view: View, resource_id: str) -> list[Association]:
    """Return all associations of the resource with this id, in order."""
    return sorted(_led_to(view, layout.resource_id_prefix(resource_id)), key=sort_key)


def newest_of_resource(view: View, name: str, namespace: str) -> list[Association]:
    """Return the associations of the resource with this name that changed last (Confluent 8.4).

    Several resources share a name if a topic was deleted and created again.
    """
    found = list(_led_to(view, layout.resource_name_prefix(name, namespace)))
    newest = max(
        found, key=lambda each: (each.update_ts, each.created_ms, each.resource_id or ""), default=None
    )
    if newest is None:
        return []
    return sorted((each for each in found if each.resource_id == newest.resource_id), key=sort_key)


def list_of_subject(
    view: View, subject: Subject, wanted: Filter, after: SortKey | None = None
) -> Iterator[Association | None]:
    """Walk the matching associations of a subject in order, starting after ``after``."""
    return _filter_walk(lambda: walk_of_subject(view, subject), wanted, after)


def list_of_resource_id(
    view: View, resource_id: str, wanted: Filter, after: SortKey | None = None
) -> Iterator[Association | None]:
    """Walk the matching associations of the resource with this id in order."""
    return _filter_walk(lambda: _led_to(view, layout.resource_id_prefix(resource_id)), wanted, after)


def list_named(
    view: View, name: str, namespace: str, wanted: Filter, after: SortKey | None = None
) -> Iterator[Association | None]:
    """Walk the matching associations of the resources with this name in order; ``-``: any name or namespace.

    Without a name, the keys of all associations are scanned. Names with the same first 84 bytes come in a
    fixed but arbitrary order.
    """
    if name == ANY:
        prefix = layout.RESOURCE_NAME
    else:
        prefix = layout.resource_name_prefix(name, None if namespace == ANY else namespace)
    packed = None if namespace == ANY else layout.part(namespace)
    begun = None if after is None else layout.resource_name_prefix(after[0], after[1])
    row = view.seek(prefix if begun is None else max(prefix, begun))
    while row is not None and row[0].startswith(prefix):
        same = layout.resource_of(row[0])
        if packed is None or layout.namespace_of(row[0]) == packed:
            begin = after if same == begun else None
            yield from _filter_walk(partial(_led_to, view, same), wanted, begin)
        else:
            yield None
        row = view.seek(layout.after(same))


def _filter_walk(
    walk: Callable[[], Iterator[Association]], wanted: Filter, after: SortKey | None
) -> Iterator[Association | None]:
    def matches() -> Iterator[Association | None]:
        return (each if wanted.admits(each) else None for each in walk())

    return in_order(matches, sort_key, after)


def _led_to(view: View, prefix: bytes) -> Iterator[Association]:
    for key, _ in scan(view, prefix):
        value = view.get(layout.association_of(key))
        if value is not None:
            yield _decode(value)
