"""The request of a delivery, a signed CloudEvent as by Standard Webhooks, and when it is tried again.

The secret of a receiver is derived from one secret of the cluster and from the webhook's identity and number
of rotations. So all nodes know it, a copy of the log reveals it to nobody, and a rotation makes a new one.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import orjson

from registry.domain.events import Event
from registry.domain.log_format.webhooks import Webhook

# For this long after a rotation, deliveries carry signatures by both secrets.
OVERLAP_MS = 24 * 3_600_000
_FINGERPRINT_DIGITS = 16


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return a signature of version 1; ``timestamp`` is in seconds since the epoch."""
    return "v1," + b64encode(_mac(secret, b"%b.%d.%b" % (message_id.encode(), timestamp, body))).decode()


class Signer:
    """The secrets of all receivers, derived from the secret of the cluster.

    While that one is changed there are two. A webhook is signed by the one that its secret was derived from.
    """

    def __init__(self, cluster_secrets: str) -> None:
        """``cluster_secrets``: one on each line, the newest first."""
        keys = [each.encode() for each in cluster_secrets.split("\n")]
        self._keys = {_mac(key, b"registrar webhooks").hex()[:_FINGERPRINT_DIGITS]: key for key in keys}
        # Identifies the secret from which those of new and rotated webhooks are derived.
        self.fingerprint = next(iter(self._keys))

    def knows(self, webhook: Webhook) -> bool:
        """Return true if a webhook's secret was derived from one of these."""
        return webhook.key in self._keys

    def encoded_secret(self, webhook_id: str, rotations: int) -> str:
        """Return the secret of a new or rotated receiver as it is given to people."""
        secret = _secret(self._keys[self.fingerprint], webhook_id, rotations)
        return "whsec_" + b64encode(secret).decode()

    def signatures(self, webhook: Webhook, now_ms: int, message_id: str, body: bytes) -> str:
        """Return the header ``webhook-signature``: one signature, or more soon after a rotation.

        The former secret may have been derived from any secret of the cluster.
        """
        secrets = [_secret(self._keys[webhook.key], webhook.id, webhook.rotations)]
        if webhook.rotations > 0 and now_ms - webhook.rotated < OVERLAP_MS:
            secrets += [_secret(key, webhook.id, webhook.rotations - 1) for key in self._keys.values()]
        return " ".join(signature(each, message_id, now_ms // 1000, body) for each in secrets)


def _secret(key: bytes, webhook_id: str, rotations: int) -> bytes:
    return _mac(key, b"registrar webhook %b %d" % (webhook_id.encode(), rotations))


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


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


FIRST_S = 1.0
# A receiver may ask for a longer pause than any that follows from the number of failures, but not for more.
RETRY_AFTER_MAX_S = 3600.0
_DOUBLINGS_MAX = 20
_REASON_CHARACTERS_MAX = 500


class Undelivered(Exception):
    """Raised if a receiver did not accept a message; the text says why."""

    def __init__(self, reason: str, *, status: int = 0, retry_after_s: float = 0.0) -> None:
        """``status`` is 0 without an answer."""
        # It may hold what the receiver sent.
        super().__init__(reason[:_REASON_CHARACTERS_MAX])
        self.status = status
        self.retry_after_s = retry_after_s


def pause_s(failures: int, most_s: float, chance: float) -> float:
    """Return the pause after so many failures in a row: it doubles each time, up to ``most_s``.

    ``chance``, from 0 to 1, takes away up to half of it, so that webhooks do not all try at the same time.
    """
    longest = min(most_s, FIRST_S * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
    return longest * (1 - chance / 2)


def retry_after_s(value: str | None, now_s: float) -> float:
    """Return the seconds that a ``Retry-After`` asks for, in either of its forms; 0 if it cannot be read.

    ``now_s``: the wall clock, in seconds since the epoch.
    """
    text = "" if value is None else value.strip()
    if text.isascii() and text.isdigit():
        asked = float(text[:9])
    else:
        try:
            asked = parsedate_to_datetime(text).timestamp() - now_s
        except (ValueError, OverflowError):
            asked = 0.0
    return min(max(0.0, asked), RETRY_AFTER_MAX_S)
