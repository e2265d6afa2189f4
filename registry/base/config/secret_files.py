"""Secrets in files: each setting of a secret may name a file that holds it instead."""

from __future__ import annotations

from pathlib import Path

_CHARACTERS_MAX = 64 * 1024  # a longer file is not that of a secret
_BYTES_MAX = 4 * _CHARACTERS_MAX


def secret_of(content: bytes) -> str:
    """Return the secret in the content of a file, without a line break at its end.

    Raises :class:`ValueError` if the content cannot be a secret.
    """
    secret = content.decode().removesuffix("\n").removesuffix("\r")
    if not secret or len(secret) > _CHARACTERS_MAX:
        raise ValueError
    return secret


def secret_in(file: str | Path) -> str:
    """Return the secret in a file. Raises :class:`OSError`, and :class:`ValueError` as :func:`secret_of`."""
    with Path(file).open("rb") as opened:
        return secret_of(opened.read(_BYTES_MAX + 1))


def current_secret(secret: str, file: str) -> str:
    """Return the secret that ``file`` holds now.

    ``secret`` was read from it at the start, and is returned while the file cannot be read, or if no file is
    named.
    """
    if not file:
        return secret
    try:
        return secret_in(file)
    except (OSError, ValueError):
        return secret
