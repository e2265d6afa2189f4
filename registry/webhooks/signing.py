"""Signatures as by Standard Webhooks, and the secrets of receivers, which no log or row holds.

The secret of a receiver is derived from one secret of the cluster and from the webhook's identity and number
of rotations. So all nodes know it, a copy of the log tells nobody, and a rotation makes a new one.
"""

from __future__ import annotations

import hmac
from base64 import b64encode

from registry.domain.log_format.webhook_values import Webhook

# For this long after a rotation, deliveries carry signatures by both secrets.
OVERLAP_MS = 24 * 3_600_000
_FINGERPRINT_DIGITS = 16


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return a signature of version 1; ``timestamp`` is in seconds since the epoch."""
    return "v1," + b64encode(_mac(secret, b"%b.%d.%b" % (message_id.encode(), timestamp, body))).decode()


class Signer:
    """The secrets of all receivers, derived from the secret of the cluster."""

    def __init__(self, cluster_secret: str) -> None:
        self._key = cluster_secret.encode()
        # Tells if a webhook's receiver got a secret that was derived from this one.
        self.fingerprint = _mac(self._key, b"registrar webhooks").hex()[:_FINGERPRINT_DIGITS]

    def shown(self, webhook_id: str, rotations: int) -> str:
        """Return a receiver's secret as it is given to people."""
        return "whsec_" + b64encode(self._secret(webhook_id, rotations)).decode()

    def signatures(self, webhook: Webhook, now_ms: int, message_id: str, body: bytes) -> str:
        """Return the header ``webhook-signature``: one signature, or two soon after a rotation."""
        overlaps = webhook.rotations > 0 and now_ms - webhook.rotated < OVERLAP_MS
        return " ".join(
            signature(self._secret(webhook.id, rotations), message_id, now_ms // 1000, body)
            for rotations in range(webhook.rotations, webhook.rotations - 1 - overlaps, -1)
        )

    def _secret(self, webhook_id: str, rotations: int) -> bytes:
        return _mac(self._key, b"registrar webhook %b %d" % (webhook_id.encode(), rotations))


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
