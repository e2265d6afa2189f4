"""The request of a delivery: a CloudEvent in structured mode, with the headers of Standard Webhooks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import orjson

from registry.domain.events.event import Event
from registry.domain.log_format.webhook_values import Webhook

from .signing import Signer

CONTENT_TYPE = "application/cloudevents+json; charset=UTF-8"
PING = "ping"


class Message(NamedTuple):
    """A message to one receiver."""

    # The same in each attempt, so that receivers can drop repetitions.
    id: str
    body: bytes


class Messages:
    """Messages about one log: ``source`` and offset name an event uniquely.

    ``log``: the identity of the log, another for each log.
    """

    def __init__(self, log: str) -> None:
        self._source = "urn:registrar:" + quote(log, safe="/")
        self._prefix = hashlib.blake2b(log.encode(), digest_size=6).hexdigest()

    def of(self, event: Event) -> Message:
        """Return the message of an event."""
        members = {"id": str(event.offset), "type": event.kind.value, "time": event.time}
        about = {"subject": event.subject, "principal": event.principal}
        return self._message(f"evt_{self._prefix}_{event.offset}", members, about, msgspec.to_builtins(event))

    def ping(self, webhook: str, chance: str, now_ms: int) -> Message:
        """Return a message that only tests the receiver; ``chance`` makes its id unique."""
        members = {"id": f"ping-{chance}", "type": PING, "time": now_ms}
        return self._message(f"ping_{chance}", members, {}, {"webhook": webhook})

    def _message(
        self, message_id: str, members: dict[str, Any], about: dict[str, str | None], data: Any
    ) -> Message:
        event = {
            "specversion": "1.0",
            "id": members["id"],
            "source": self._source,
            "type": f"registrar.{members['type']}",
            # An attribute of CloudEvents, and one of our own.
            **{name: value for name, value in about.items() if value is not None},
            **_time(members["time"]),
            "datacontenttype": "application/json",
            "data": data,
        }
        return Message(message_id, orjson.dumps(event))


def _time(time_ms: int) -> dict[str, str]:
    """Return the member ``time``; none for a time that other writers made up and no calendar has."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return {}
    return {"time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def headers(
    message: Message, webhook: Webhook, signer: Signer, now_ms: int, version: str
) -> Mapping[str, str]:
    """Return the headers of one attempt; ``now_ms`` is its time, ``version`` that of the registry."""
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": f"registrar/{version}",
        "webhook-id": message.id,
        "webhook-timestamp": str(now_ms // 1000),
        "webhook-signature": signer.signatures(webhook, now_ms, message.id, message.body),
    }
