"""Webhooks and their positions: values in the log, the rows made of them, and what clients see of them.

A row holds the members of its record's value, and the record's offset and time. No secret is in the log:
a receiver's secret follows from the node's setting and from what is here (:mod:`registry.webhooks.message`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
import orjson

from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .records import WEBHOOK, NoopKey, Record
from .values import BadValue

_OFFSET_MAX = 2**63 - 1
_Number = Annotated[int, msgspec.Meta(ge=0, le=_OFFSET_MAX)]
_T = TypeVar("_T")


class Webhook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A webhook as its row holds it; its record lacks the last three members."""

    url: str
    # Random hexadecimal digits. A webhook that is created again under the same name has others.
    id: str
    # Names of kinds of events; none: all.
    kinds: list[str] = []
    # Prefix of qualified subjects, as in lists of subjects; empty: everything.
    subject_prefix: str = msgspec.field(default="", name="subjectPrefix")
    enabled: bool = True
    # Why the registry disabled it; empty if an administrator did.
    reason: str = ""
    # Number of times that its secret was changed, and when this was last done, in ms since the epoch.
    rotations: _Number = 0
    rotated: _Number = 0
    # Fingerprint of the setting from which its secrets are derived.
    key: str = ""
    name: str = ""
    offset: int = -1
    ts: int = 0


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of a webhook as its row holds it."""

    # Everything before this offset is delivered or not wanted.
    next: _Number | None = None
    offset: int = -1
    ts: int = 0


_decode_webhook = msgspec.json.Decoder(Webhook).decode
_decode_position = msgspec.json.Decoder(Position).decode


def webhook_value(webhook: Webhook) -> bytes:
    """Return the value of a webhook's record."""
    return msgspec.json.encode(msgspec.structs.replace(webhook, name="", offset=-1, ts=0))


def position_value(offset: int | None) -> bytes:
    """Return the value of a position; ``None`` stands for the record after this one."""
    return msgspec.json.encode(Position(offset))


def webhook_row(name: str, value: bytes, record: Record) -> bytes:
    """Return the row of the webhook ``name``."""
    webhook = _read(_decode_webhook, value)
    found = msgspec.structs.replace(webhook, name=name, offset=record.offset, ts=record.ts)
    return msgspec.json.encode(found)


def position_row(value: bytes, record: Record) -> bytes:
    """Return the row of a webhook's position."""
    position = _read(_decode_position, value)
    offset = record.offset + 1 if position.next is None else position.next
    return msgspec.json.encode(Position(offset, record.offset, record.ts))


def _read(decode: Callable[[bytes], _T], value: bytes) -> _T:
    try:
        return decode(value)
    except (ValueError, RecursionError) as error:
        raise BadValue(str(error)) from None


def check(key: NoopKey, value: bytes) -> None:
    """Raise :class:`BadValue` for a value that is not that of a webhook or of a position, as ``key`` says."""
    _read(_decode_webhook if key.registrar == WEBHOOK else _decode_position, value)


def read_webhook(row: bytes) -> Webhook:
    """Return the webhook of a row."""
    return _decode_webhook(row)


def read_position(row: bytes) -> int:
    """Return the offset of a position's row."""
    return _decode_position(row).next or 0


def webhooks(view: View) -> list[Webhook]:
    """Return all webhooks in the order of their names."""
    return [read_webhook(row) for _, row in scan(view, layout.WEBHOOK)]


def webhook(view: View, name: str) -> Webhook | None:
    """Return a webhook; ``None`` if there is none of this name."""
    row = view.get(layout.webhook_key(layout.WEBHOOK, name))
    return None if row is None else read_webhook(row)


def position(view: View, webhook: Webhook) -> int:
    """Return the offset before which everything is delivered; without one, that after the webhook itself."""
    row = view.get(layout.webhook_key(layout.POSITION, webhook.name))
    return webhook.offset + 1 if row is None else read_position(row)


def webhook_members(webhook: Webhook) -> dict[str, Any]:
    """Return the members that clients see of a webhook."""
    members: dict[str, Any] = {
        "name": webhook.name,
        "url": webhook.url,
        "kinds": webhook.kinds,
        "subjectPrefix": webhook.subject_prefix,
        "enabled": webhook.enabled,
        "id": webhook.id,
        "rotations": webhook.rotations,
    }
    if webhook.rotated:
        members["rotated"] = webhook.rotated
    return members | ({"reason": webhook.reason} if webhook.reason else {})


def webhook_entity(webhook: Webhook) -> bytes:
    """Return the JSON of :func:`webhook_members`."""
    return orjson.dumps(webhook_members(webhook))


def webhook_tag(webhook: Webhook) -> str:
    """Return the entity tag, without quotes, of what :func:`webhook_members` shows."""
    return hashlib.blake2b(webhook_entity(webhook), digest_size=12).hexdigest()
