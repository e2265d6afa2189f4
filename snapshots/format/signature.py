"""Signatures of manifests, for locations that more people can write to than may change the registry.

The file ``manifest.hmac`` next to a manifest holds the HMAC-SHA256 of its bytes in hexadecimal digits. The
manifest holds the hashes of all parts, so it covers them, too.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

SIGNATURE = "manifest.hmac"
SIGNATURE_BYTES_MAX = 100


class ManifestKeys(NamedTuple):
    """The secrets that sign manifests."""

    # Signs and is accepted.
    current: str = ""
    # Is accepted, too, while keys are changed; empty for none.
    old: str = ""

    def sign(self, manifest: bytes) -> bytes:
        """Return the content of the signature's file."""
        return f"{_digits(self.current, manifest)}\n".encode()

    def accept(self, manifest: bytes, signature: bytes) -> bool:
        """Return whether the content of the signature's file belongs to a manifest."""
        found = [
            hmac.compare_digest(signature.strip(), _digits(key, manifest).encode()) for key in self if key
        ]
        return any(found)


# Manifests are neither signed nor checked.
NO_KEYS = ManifestKeys()


def _digits(key: str, manifest: bytes) -> str:
    return hmac.new(key.encode(), manifest, "sha256").hexdigest()
