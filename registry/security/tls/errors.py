"""The error for unusable TLS files and rules; imports no TLS library."""

from __future__ import annotations


class TlsError(Exception):
    """Files or rules that cannot be used for TLS; the text names the setting and says why."""
