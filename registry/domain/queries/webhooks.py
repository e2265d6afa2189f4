"""Webhooks and their positions, as stored."""

from __future__ import annotations

from typing import Any

import orjson

from registry.domain.log_format.webhook_values import Webhook, read_position, read_webhook
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan


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
