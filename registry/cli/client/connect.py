"""Making a client from URLs, flags, the environment and profiles."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .addresses import PROFILE, Address, Credentials, basic, bearer, is_profile, parse_addresses
from .client import RegistryClient
from .resources import BadAddress
from .transport import TlsFiles

_KEYS = ("url", "ca", "certificate", "key", "user_file", "token_file")
_FILE_BYTES_MAX = 1 << 20
_SECRET_BYTES_MAX = 1 << 16


class Profile(NamedTuple):
    """A registry as the file of profiles names it; empty members are taken from flags and the environment."""

    url: str
    ca: str = ""
    certificate: str = ""
    key: str = ""
    credentials: Credentials | None = None


def find_profile(text: str, environment: Mapping[str, str]) -> Profile:
    """Return the profile that ``@NAME`` names. Raises :class:`.resources.BadAddress`.

    The file is the one that ``REGISTRAR_REGISTRIES`` names, by default ``registrar/registries.toml`` in
    ``XDG_CONFIG_HOME`` or ``~/.config``. Nobody else may be able to write it: it says who gets credentials.
    """
    name, file = text.removeprefix(PROFILE), _file(environment)
    tables = _tables(file)
    if name not in tables:
        known = ", ".join(sorted(tables)) or "none"
        raise BadAddress(f"there is no registry {name!r} in {file}; known registries: {known}")
    return _profile(f"{file}: {name}", tables[name], file.parent, environment)


def _file(environment: Mapping[str, str]) -> Path:
    if named := environment.get("REGISTRAR_REGISTRIES"):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or str(
        Path(environment.get("HOME") or "~").expanduser() / ".config"
    )
    return Path(home) / "registrar" / "registries.toml"


def _tables(file: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(_read(file, _FILE_BYTES_MAX, others=stat.S_IWGRP | stat.S_IWOTH).decode())
    except FileNotFoundError:
        raise BadAddress(
            f'there is no file {file}: write one, with a table [NAME] and url = "…" for each registry'
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadAddress(f"{file} is not TOML: {error}") from None
    wrong = [name for name, table in found.items() if not isinstance(table, dict)]
    if wrong:
        raise BadAddress(f"{file}: {wrong[0]} must be a table: [{wrong[0]}]")
    return found


def _profile(where: str, table: dict[str, Any], folder: Path, environment: Mapping[str, str]) -> Profile:
    unknown = sorted(table.keys() - set(_KEYS))
    if unknown:
        raise BadAddress(f"{where}: unknown key {unknown[0]}; allowed are {', '.join(_KEYS)}")
    wrong = [key for key, value in table.items() if not isinstance(value, str) or not value]
    if wrong or "url" not in table:
        raise BadAddress(f"{where}: {(wrong or ['url'])[0]} must be a string")
    if "@" in table["url"]:
        raise BadAddress(
            f"{where}: the url must not hold credentials: name a file by user_file or token_file"
        )
    paths = {key: _path(table[key], folder, environment) for key in _KEYS[1:] if key in table}
    files = {key: str(paths[key]) for key in ("ca", "certificate", "key") if key in paths}
    return Profile(table["url"], **files, credentials=_credentials(where, paths))


def _path(text: str, folder: Path, environment: Mapping[str, str]) -> Path:
    if text.startswith("~/"):
        return Path(environment.get("HOME") or "~").expanduser() / text[2:]
    return folder / text


def _credentials(where: str, paths: Mapping[str, Path]) -> Credentials | None:
    if "user_file" in paths and "token_file" in paths:
        raise BadAddress(f"{where}: user_file and token_file are both set: remove one of them")
    for key, path in paths.items():
        if not key.endswith("_file"):
            continue
        try:
            secret = _read(path, _SECRET_BYTES_MAX, others=stat.S_IRWXG | stat.S_IRWXO).decode().strip()
        except FileNotFoundError:
            raise BadAddress(f"{where}: {key} names {path}, which is not a file") from None
        except UnicodeDecodeError:
            raise BadAddress(f"{where}: {path} is not UTF-8") from None
        if key == "token_file":
            return bearer(secret, f"in {path}")
        user, colon, password = secret.partition(":")
        if not colon:
            raise BadAddress(f"{where}: {path} must hold NAME:PASSWORD")
        return basic(user, password, f"in {path}")
    return None


def _read(path: Path, bytes_max: int, *, others: int) -> bytes:
    """Return the contents of a file. ``others``: permissions that nobody but its owner may have."""
    try:
        # A pipe would block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadAddress(f"{path} is not a regular file")
            if status.st_uid not in (0, os.geteuid()):
                raise BadAddress(f"{path} belongs to another user: copy it")
            if status.st_mode & others:
                can = "read" if others & stat.S_IRGRP else "write"
                raise BadAddress(f"other users can {can} {path}: run chmod go-rwx on it")
            found = file.read(bytes_max + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadAddress(f"{path} cannot be read: {error.strerror}") from None
    if len(found) > bytes_max:
        raise BadAddress(f"{path} is larger than {bytes_max} bytes")
    return found


# Where "registrar serve" listens by default.
DEFAULT_URL = "http://127.0.0.1:8081"


class Connection(NamedTuple):
    """The way to a registry; empty members are taken from its profile or the environment.

    ``url`` may be a profile: ``@NAME``.
    """

    url: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    timeout_s: float = 30.0

    def open(self, environment: Mapping[str, str], url: str = "", side: str = "") -> RegistryClient:
        """Make a client of the registry at ``url``, by default the one of this connection.

        ``side``: :data:`.addresses.FROM` or :data:`.addresses.TO` if the command names two registries. Raises
        :class:`.resources.BadAddress`.
        """
        way = self._way(environment, url)
        return self._client(way, parse_addresses(way.url, environment, side, way.credentials))

    def open_each(self, environment: Mapping[str, str]) -> list[RegistryClient]:
        """Make a client for each address, to ask every one of them."""
        way = self._way(environment, "")
        addresses = parse_addresses(way.url, environment, own=way.credentials)
        return [self._client(way, [each]) for each in addresses]

    def _way(self, environment: Mapping[str, str], url: str) -> Profile:
        """Return the registry that is meant. Flags come first, then its profile, then the environment."""
        given = url or self.url or environment.get("REGISTRAR_URL") or DEFAULT_URL
        found = find_profile(given, environment) if is_profile(given) else Profile(given)
        # A certificate and its key belong together.
        own = self if self.certificate or self.key else found
        certificate, key = own.certificate, own.key
        if not certificate and not key:
            certificate, key = (environment.get(f"REGISTRAR_{each}", "") for each in ("CERTIFICATE", "KEY"))
        ca = self.ca or found.ca or environment.get("REGISTRAR_CA", "")
        return found._replace(ca=ca, certificate=certificate, key=key)

    def _client(self, way: Profile, addresses: list[Address]) -> RegistryClient:
        return RegistryClient(addresses, TlsFiles(way.ca, way.certificate, way.key), self.timeout_s)
