"""Secrets in URIs: passwords, and parameters that are keys, tokens or signatures."""

from __future__ import annotations

import re

# ``sig`` holds the signature of Azure's URIs. A user without a password may be Azure's ``container@account``.
_SECRET = re.compile(
    r"(?<=://)(?P<user>[^/:]*:)[^/]*(?P<end>@)"
    r"|(?P<name>[?&](?:sig|[a-z_-]*(?:key|token|secret))=)[^&\s'\"]*",
    re.IGNORECASE,
)


def has_secret(text: str) -> bool:
    """Return whether a URI in the text contains a secret."""
    return _SECRET.search(text) is not None


def without_secrets(text: str) -> str:
    """Return the text without secrets, and without their users and the names of their parameters."""
    return _SECRET.sub("", text)


def with_secrets_hidden(text: str, shown: str) -> str:
    """Return the text with ``shown`` in place of each secret."""
    return _SECRET.sub(lambda found: f"{found['user'] or found['name']}{shown}{found['end'] or ''}", text)
