"""Settings that are addresses: hosts, ports, lists of servers, URLs and the secrets in them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .setting_types import Kind, NotAllowed, quote_toml

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_ONLY_DIGITS = re.compile(r"[0-9.]+")
_EXTENSION = re.compile(r"[A-Za-z]{1,255}=[\x21-\x7e \t\r\n]{0,1000}")
_CHROOT = re.compile(r"(/[^/\s\0]+)+")
# Hosts to listen on that are not addresses at which this host can be reached.
ANY_HOST = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 (recognized, not listened on)
_PORTS = {"http": 80, "https": 443}
# ``sig`` holds the signature of Azure's URIs. A user without a password may be Azure's ``container@account``.
_SECRET = re.compile(
    r"(?<=://)(?P<user>[^/:]*:)[^/]*(?P<end>@)"
    r"|(?P<name>[?&](?:sig|[a-z_-]*(?:key|token|secret))=)[^&\s'\"]*",
    re.IGNORECASE,
)


def split_address(address: str) -> tuple[str, int]:
    """Split ``HOST:PORT``; an IPv6 host loses its brackets.

    Raises :class:`ValueError` if the port is missing.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ValueError(address)
    bracketed = host.startswith("[") and host.endswith("]")
    if not bracketed and ":" in host:
        raise ValueError(address)
    return (host[1:-1] if bracketed else host), int(port)


def _read_address(value: object, port_min: int = 1) -> str:
    host, port = split_address(value) if isinstance(value, str) else ("", 0)
    if not port_min <= port <= 65535:
        raise ValueError(value)
    if ":" in host:
        ipaddress.IPv6Address(host)
    elif not _HOST_NAME.fullmatch(host):
        raise ValueError(value)
    return str(value)


def _read_servers(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    return ",".join(_read_address(each.strip()) for each in value.split(","))


def _read_zookeeper(value: object) -> str:
    servers, slash, chroot = str(value).partition("/")
    if slash and chroot and not _CHROOT.fullmatch(slash + chroot):
        raise ValueError(value)
    return _read_servers(servers) + (slash + chroot if chroot else "")


def read_url(value: object) -> str:
    """Return an HTTP URL with its port and without a path; raise :class:`ValueError` for anything else."""
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise ValueError(value)
    url = urlsplit(value)
    known = url.scheme in _PORTS and url.path in ("", "/") and "@" not in url.netloc
    if not known or "?" in value or "#" in value or not url.hostname:
        raise ValueError(value)
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    port = _PORTS[url.scheme] if url.port is None else url.port
    return f"{url.scheme}://{_read_address(f'{host}:{port}')}"


# Addresses by which this machine reaches listeners on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (recognized, not listened on)


class ListenAddress(NamedTuple):
    """An address on which the HTTP API is served."""

    scheme: str  # http or https
    host: str  # an IPv6 address without brackets
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def local(self) -> ListenAddress:
        """The address by which this machine reaches it, also if it listens on all addresses."""
        return self._replace(host=_LOOPBACK.get(self.host, self.host))


def listen_address(url: str) -> ListenAddress:
    """Return the address in ``http://HOST:PORT`` or ``https://HOST:PORT``; raise :class:`ValueError`."""
    scheme, _, address = url.strip().partition("://")
    if scheme not in _PORTS:
        raise ValueError(url)
    return ListenAddress(scheme, *split_address(_read_address(address)))


def _read_listeners(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    found = [listen_address(each) for each in value.split(",")]
    if len({each[1:] for each in found}) < len(found):
        raise NotAllowed("two listeners have the same address")
    return ",".join(map(str, found))


def _read_origins(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    origins = [each.strip().rstrip("/") for each in value.split(",")]
    for origin in origins:
        if origin != "*":
            read_url(origin)
    return ",".join(origins)


def _read_hosts(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    hosts = [each.strip() for each in value.split(",")]
    for host in hosts:
        if host != "*":
            _read_address(f"{host}:1")
    return ",".join(hosts)


def _read_endpoint_url(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]{1,2000}", value):
        raise ValueError(value)
    url = urlsplit(value)
    if url.fragment or "#" in value:
        raise ValueError(value)
    # Reads scheme, host and port, and refuses credentials, which would be printed.
    read_url(f"{url.scheme}://{url.netloc}")
    return value


def _read_extensions(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    for pair in value.split(","):
        # As in RFC 7628; "auth" is the token.
        if not _EXTENSION.fullmatch(pair.strip()) or pair.strip().startswith("auth="):
            raise ValueError(value)
    return value


def is_http_url(text: str) -> bool:
    """Return true if the text is an HTTP URL, and not a path."""
    return text.startswith(("http://", "https://"))


def _read_file_or_url(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or has_secret(value):
        raise ValueError(value)
    if is_http_url(value) and (not value.isascii() or " " in value or not urlsplit(value).hostname):
        raise ValueError(value)
    return value


def _read_destinations(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    each_one = [each.strip() for each in value.split(",")]
    for each in each_one:
        if not _HOST_NAME.fullmatch(each.removeprefix("*.")) or _ONLY_DIGITS.fullmatch(each):
            ipaddress.ip_network(each, strict=False)
    return ",".join(each_one)


def _read_networks(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    return ",".join(str(ipaddress.ip_network(each.strip(), strict=False)) for each in value.split(","))


def _or_empty(read: Callable[[object], str]) -> Callable[[object], Any]:
    return lambda value: "" if value == "" else read(value)


ADDRESS = Kind(
    _read_address,
    "HOST:PORT with a port from 1 to 65535; an IPv6 host is in brackets, as in [::1]:8081",
    quote_toml,
)
LISTENERS = Kind(
    _or_empty(_read_listeners),
    "http://HOST:PORT or https://HOST:PORT, or several separated by commas, or empty",
    quote_toml,
)
PEER_ADDRESS = Kind(
    _or_empty(lambda value: _read_address(value, 0)),
    "HOST:PORT, where port 0 means any free port, or empty",
    quote_toml,
)
REACHED_ADDRESS = Kind(
    _or_empty(_read_address), "HOST:PORT with a port from 1 to 65535, or empty", quote_toml
)
SERVERS = Kind(_or_empty(_read_servers), "HOST:PORT, or several separated by commas, or empty", quote_toml)
ZOOKEEPER = Kind(
    _or_empty(_read_zookeeper),
    "HOST:PORT, or several separated by commas, followed by an optional path such as /registry; or empty",
    quote_toml,
)
URL = Kind(
    _or_empty(read_url), "a URL without a path, such as http://registry-1.example:8081, or empty", quote_toml
)
ENDPOINT_URL = Kind(
    _or_empty(_read_endpoint_url), "a URL such as https://login.example/oauth2/token, or empty", quote_toml
)
EXTENSIONS = Kind(_or_empty(_read_extensions), "NAME=VALUE pairs separated by commas, or empty", quote_toml)
FILE_OR_URL = Kind(
    _or_empty(_read_file_or_url),
    "the path of a readable file, a URL with http or https and without credentials, or empty",
    quote_toml,
)
NETWORKS = Kind(
    _or_empty(_read_networks),
    "addresses or networks such as 10.0.0.0/8, separated by commas, or empty",
    quote_toml,
)
DESTINATIONS = Kind(
    _or_empty(_read_destinations),
    'networks such as 10.0.0.0/8, addresses, and host names such as "hooks.example" or "*.svc.local", '
    "separated by commas, or empty",
    quote_toml,
)
HOSTS = Kind(
    _or_empty(_read_hosts),
    'names without ports such as "registry.example", separated by commas, "*" for all, or empty',
    quote_toml,
)
ORIGINS = Kind(
    _or_empty(_read_origins),
    'origins such as "https://ui.example", separated by commas, "*" for all, or empty',
    quote_toml,
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
