"""Secrets in files: each setting of a secret may name a file that holds it instead."""

from __future__ import annotations

from pathlib import Path

_CHARACTERS_MAX = 64 * 1024  # a longer file is not that of a secret


def secret_in(file: str | Path) -> str:
    """Return the secret in a file, without a line break at its end.

    Raises :class:`OSError`, and :class:`ValueError` if the content cannot be a secret.
    """
    with Path(file).open(encoding="utf-8", newline="") as opened:
        text = opened.read(_CHARACTERS_MAX + 1)
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret or len(secret) > _CHARACTERS_MAX:
        raise ValueError
    return secret


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
