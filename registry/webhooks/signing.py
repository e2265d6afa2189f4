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

    def shown(self, webhook_id: str, rotations: int) -> str:
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
