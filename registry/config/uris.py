"""What is secret in URIs: a user's password, and parameters that are keys, tokens or signatures."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?<=://)(?P<user>[^/:]*:)[^/]*(?P<end>@)"
    r"|(?P<name>[?&](?:sig|[a-z_-]*(?:key|token|secret))=)[^&\s'\"]*",
    re.IGNORECASE,
)
"""``sig`` makes a URI of Azure's a pass; a user without a password may be its ``container@account``."""


def has_secret(text: str) -> bool:
    """Whether there is a secret in a URI within the text."""
    return _SECRET.search(text) is not None


def without_secrets(text: str) -> str:
    """The text without them, and without whose passwords they are and what the parameters are called."""
    return _SECRET.sub("", text)


def with_secrets_hidden(text: str, shown: str) -> str:
    """The text with ``shown`` in the place of each."""
    return _SECRET.sub(lambda found: f"{found['user'] or found['name']}{shown}{found['end'] or ''}", text)
