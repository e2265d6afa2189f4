"""Karapace's authorization files: the users in them.

JSON: ``{"users": [{"username", "algorithm", "salt", "password_hash"}, …], "permissions": […]}``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from registry.security.watched_file import FileError

from .passwords import Salted

_TEXT_CHARACTERS_MAX = 1024


def parse(content: bytes) -> Iterator[tuple[str, Salted]]:
    """Yield names and passwords; the last of several with one name counts. Raises :class:`FileError`."""
    users = document(content).get("users")
    if not isinstance(users, list):
        raise FileError('has no list "users"')
    for number, entry in enumerate(users, 1):
        try:
            yield _user(entry)
        except ValueError as error:
            raise FileError(f"user {number} of the list {error}") from None


def document(content: bytes) -> dict[str, Any]:
    """Return the JSON object in ``content``; raise :class:`FileError` if it is none."""
    try:
        found = json.loads(content)
    except json.JSONDecodeError as error:
        raise FileError(f"is not JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError):
        raise FileError("is not JSON: it is not UTF-8, nested too deeply, or has a number too long") from None
    if not isinstance(found, dict):
        raise FileError("is not a JSON object")
    return found


def _user(entry: Any) -> tuple[str, Salted]:
    name, algorithm, salt, encoded = (
        _text(entry, field) for field in ("username", "algorithm", "salt", "password_hash")
    )
    if not name:
        raise ValueError("has no name")
    try:
        digest = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("has a password_hash that is not base64") from None
    return name, Salted(algorithm, salt.encode(), digest)


def _text(entry: Any, field: str) -> str:
    found = entry.get(field) if isinstance(entry, dict) else None
    if not isinstance(found, str) or len(found) > _TEXT_CHARACTERS_MAX:
        raise ValueError(f'has no "{field}" of at most {_TEXT_CHARACTERS_MAX} characters')
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ValueError(f'has a lone surrogate in "{field}"') from None
    return found
