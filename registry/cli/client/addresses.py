"""Addresses of registries and the credentials for them."""

from __future__ import annotations

import base64
import netrc
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from .resources import BadAddress

# Endings of the variables for the first and the second registry of a command.
FROM, TO = "_FROM", "_TO"
# In front of a profile's name where a URL may stand.
PROFILE = "@"
_NETRC_BYTES_MAX = 1 << 20
_UNQUOTED = ": the port is a number, and / ? # @ in a password are written as %2F %3F %23 %40"


def is_profile(text: str) -> bool:
    """Return true if a text names a profile instead of a URL."""
    return text.startswith(PROFILE)


class Credentials(NamedTuple):
    """The value of the header ``Authorization``, and what a message may say about it."""

    header: str
    shown: str


class Address(NamedTuple):
    """One server of a registry."""

    url: str  # without credentials and without a slash at the end
    credentials: Credentials | None
    side: str = ""  # the ending of the variables with its credentials


def parse_addresses(
    text: str, environment: Mapping[str, str], side: str = "", own: Credentials | None = None
) -> list[Address]:
    """Parse URLs that are separated by commas; find the credentials for each.

    They are, in this order, those in the URL, ``REGISTRAR_TOKEN`` or ``REGISTRAR_USER``, and the entry of
    the host in the file that ``NETRC`` names, by default ``~/.netrc``.

    ``side``: :data:`FROM` or :data:`TO` if a command names two registries. Then the variables end in it, and
    those without an ending are only meant for the addresses in ``REGISTRAR_URL``. ``own``: credentials that
    come before all others. Raises :class:`BadAddress`.
    """
    addresses = [_address(each.strip(), environment, side, own) for each in text.split(",") if each.strip()]
    if not addresses:
        raise BadAddress("no URL of a registry is given: use --url or REGISTRAR_URL")
    return addresses


def _address(text: str, environment: Mapping[str, str], side: str, own: Credentials | None) -> Address:
    parts, url = _split(text)
    found = own
    if parts.username is not None:
        found = basic(unquote(parts.username), unquote(parts.password or ""), "in the URL")
    elif own is None:
        found = _of_environment(environment, side)
        if found is None and side and _is_usual(url, environment):
            found = _of_environment(environment, "")
        found = found or _of_netrc(parts.hostname or "", environment)
    return Address(url, found, side)


def _is_usual(url: str, environment: Mapping[str, str]) -> bool:
    """Return true for an address in ``REGISTRAR_URL``."""
    usual = environment.get("REGISTRAR_URL", "").split(",")
    if is_profile(usual[0]):
        return False
    return url in [_split(each.strip())[1] for each in usual if each.strip()]


def _split(text: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL, and the URL without its credentials."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        # The error may cite a part of the password.
        raise BadAddress(f"{_hide_credentials(text)} is not a URL{_UNQUOTED}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadAddress(
            f"{_hide_credentials(text)} is not the URL of a registry: write http://HOST:PORT or "
            "https://HOST:PORT"
        )
    if "@" in parts.path:
        raise BadAddress(f"{_hide_credentials(text)} is not a URL{_UNQUOTED}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    return parts, url


def _hide_credentials(text: str) -> str:
    """Return a URL without its credentials, for a message."""
    head, at, tail = text.rpartition("@")
    return repr(f"{head.partition('://')[0]}://…@{tail}" if at and "://" in head else tail)


def basic(user: str, password: str, origin: str) -> Credentials:
    """Return a name and a password; ``origin`` says where they are from."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return Credentials(f"Basic {pair}", f"the password of {user!r} {origin}")


def bearer(token: str, origin: str) -> Credentials:
    """Return a token; ``origin`` says where it is from. Raises :class:`BadAddress`."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadAddress(f"the token {origin} is empty or contains characters that no token has")
    return Credentials(f"Bearer {token}", f"the token {origin}")


def _of_environment(environment: Mapping[str, str], side: str) -> Credentials | None:
    token_name, user_name, password_name = (
        f"REGISTRAR_{each}{side}" for each in ("TOKEN", "USER", "PASSWORD")
    )
    token, user = environment.get(token_name), environment.get(user_name)
    if token and user:
        raise BadAddress(f"{token_name} and {user_name} are both set: unset one of them")
    if token:
        return bearer(token, f"in {token_name}")
    if not user:
        return None
    name, colon, password = user.partition(":")
    if not colon:
        password = environment.get(password_name, "")
        if not password:
            raise BadAddress(f"{user_name} has no password: write NAME:PASSWORD, or set {password_name}")
    return basic(name, password, f"in {user_name}")


def _of_netrc(host: str, environment: Mapping[str, str]) -> Credentials | None:
    named = environment.get("NETRC")
    home = environment.get("HOME")
    path = Path(named) if named else Path(home) / ".netrc" if home else None
    if path is None or not path.is_file():
        if named:
            raise BadAddress(f"NETRC names {named}, which is not a file")
        return None
    try:
        if path.stat().st_size > _NETRC_BYTES_MAX:
            raise BadAddress(f"{path} is larger than {_NETRC_BYTES_MAX} bytes")
        found = netrc.netrc(path).authenticators(host)
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"{path} cannot be read: {error}") from None
    except netrc.NetrcParseError as error:
        raise BadAddress(f"{path}, line {error.lineno}: {error.msg}") from None
    return basic(found[0], found[2], f"in {path}") if found else None
