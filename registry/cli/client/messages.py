"""Requests to a registry, and answers that were read to their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from .addresses import Address


class TlsFiles(NamedTuple):
    """PEM files for https: the CA (empty: the system's), and the client's certificate and key."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


class Request(NamedTuple):
    """A request to whichever server answers."""

    method: str
    path: str  # below the address
    params: Mapping[str, str | int | bool | None] = {}
    body: Any = None
    accept: str = ""


class Answer(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    next_page: str  # the target of the Link header with rel="next", or empty
    address: Address

    @property
    def is_success(self) -> bool:
        """True for a 2xx."""
        return httpx.codes.is_success(self.status)

    @property
    def media_type(self) -> str:
        """The type of the content, without parameters; empty if none is said."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()
