"""Answers: status, body and headers as data; and the one place where errors become answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from registry.domain.errors import RegistryError

Header = tuple[bytes, bytes]

STANDARD_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-cache, no-store, must-revalidate"),
    (b"x-xss-protection", b"1; mode=block"),
)
"""On every answer that does not say otherwise (Confluent 8.x)."""

_RETRY_CODES = frozenset({503, 50003, 50004})


class Answer(NamedTuple):
    """What goes back to the client, but for the headers that every answer has."""

    body: bytes = b""
    status: int = 200
    headers: tuple[Header, ...] = ()
    media_type: bytes | None = None
    """``None``: the one that was negotiated."""
    offset: int | None = None
    """The offset at which a write is visible; ``None`` for reads."""


def json_answer(value: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
    """``value`` printed as compact JSON."""
    return Answer(orjson.dumps(value), status, headers)


def error_body(code: int, message: str) -> bytes:
    """Confluent's error object."""
    try:
        return orjson.dumps({"error_code": code, "message": message})
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 cannot carry
        return orjson.dumps({"error_code": code, "message": message.encode(errors="replace").decode()})


def refusal(error: RegistryError, headers: tuple[Header, ...] = ()) -> Answer:
    """The answer for ``error``."""
    if error.code in _RETRY_CODES:
        headers = (*headers, (b"retry-after", b"1"))
    return Answer(error_body(error.code, error.message), error.status, headers)
