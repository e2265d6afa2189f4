"""The error of TLS, apart from what needs a library."""

from __future__ import annotations


class TlsError(Exception):
    """Files or rules that cannot be used for TLS; the text names the setting and says why."""
