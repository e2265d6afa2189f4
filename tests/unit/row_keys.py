"""Keys of index rows, written out independently of the fold."""

from __future__ import annotations

from registry.domain.model import Subject
from registry.domain.rows.layout import guid_prefix, id_prefix, number, part, referrer_prefix


def id_key(subject: Subject, version: int, schema_id: int, offset: int) -> bytes:
    """Return the key of an id row."""
    owner = part(subject.name) + number(version)
    return id_prefix(subject.context, schema_id) + offset.to_bytes(8, "big") + owner


def guid_key(subject: Subject, version: int, md5: bytes) -> bytes:
    """Return the key of a content row."""
    return guid_prefix(subject.context, md5) + part(subject.name) + number(version)


def referrer_key(referenced: Subject, referenced_version: int, subject: Subject, version: int) -> bytes:
    """Return the key of a referrer row."""
    owner = part(subject.context) + part(subject.name) + number(version)
    return referrer_prefix(referenced, referenced_version) + owner
