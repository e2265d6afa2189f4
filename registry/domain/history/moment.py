"""Moments in the past of the log, and the rows of owners at one."""

from __future__ import annotations

import msgspec

from registry.domain.queries.sensitive_metadata import Cipher, plain_row
from registry.domain.rows.layout import VERSION
from registry.domain.rows.version_row import ENCODED_MARK


class Moment(msgspec.Struct, frozen=True):
    """A moment in the log: after a record, or after the records that are not newer than a time."""

    # The last record that counts; ``None``: given by time.
    offset: int | None = None
    # In ms since the epoch.
    time_ms: int = 0


class OwnerRows(msgspec.Struct, frozen=True):
    """The rows of some owners at one moment."""

    # The rows include the log up to this offset, exclusively.
    applied: int
    # By owner, as packed in row keys; those of :data:`CONTEXTS` are the rows of all contexts.
    rows: dict[bytes, list[tuple[bytes, bytes]]]


# Asks for the contexts that there were; no subject or context has this owner.
CONTEXTS = b""
# Owners of one request.
OWNERS_MAX = 256


def plain_owners(found: OwnerRows, cipher: Cipher | None) -> OwnerRows:
    """Return the rows with sensitive metadata decrypted, if there is a cipher."""
    if cipher is None:
        return found
    rows = {
        owner: [
            (key, plain_row(value, cipher) if key.startswith(VERSION) and ENCODED_MARK in value else value)
            for key, value in each
        ]
        for owner, each in found.rows.items()
    }
    return OwnerRows(found.applied, rows)
