"""The events that a principal may see."""

from __future__ import annotations

from registry.domain.events.event import Event, Kind
from registry.domain.model import Subject
from registry.security.access import Access, Permission

# What a principal needs for events about a context, as for reading what they are about.
_OF_CONTEXT = {
    Kind.CONFIG_SET: (Permission.CONFIG, Permission.ADMIN),
    Kind.CONFIG_DELETED: (Permission.CONFIG, Permission.ADMIN),
    Kind.MODE_SET: (Permission.MODE, Permission.ADMIN),
    Kind.MODE_DELETED: (Permission.MODE, Permission.ADMIN),
}


def is_visible(event: Event, access: Access) -> bool:
    """Return true if an event may be shown: of subjects to readers, of the cluster to administrators."""
    owner: Subject | None = event.owner
    if owner is None:
        return access.everywhere(Permission.ADMIN)
    if not owner.is_context:
        return access.may(Permission.READ, owner)
    return any(access.may(each, owner) for each in _OF_CONTEXT.get(event.kind, (Permission.READ,)))
