"""The files that settings name, checked as a start checks them.

A process keeps the last valid content of a file that is broken later, so that nothing fails until the next
start, which refuses it. These checks find such a file before. Keys at a URL are fetched: no start waits for
them, but without them it accepts no token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from registry.base.config.settings import SECRET_FILE, Setting, Settings, table
from registry.base.config.sources import secret_of
from registry.base.observe.metrics import Sample

from .watched_file import FileError, WatchedFile

LOOK_EVERY_S: Final = 5.0
# Certificates also become invalid without a change.
_CHECK_EVERY_S: Final = 600.0
_FETCH_EVERY_S: Final = 60.0
_TEXT_MAX: Final = 300
_PLAIN: Final = ("users", "rules", "policies", "jwt_jwks")
_CERTIFICATES: Final = (
    "tls_certificate", "tls_keystore", "tls_client_ca", "peer_tls_certificate",
    "kafka_ssl_ca_location", "kafka_ssl_certificate_location", "kafka_https_ca_location",
    "zookeeper_tls_ca", "zookeeper_tls_certificate", "webhooks_ca_file",
)  # fmt: skip
# The settings of secrets, by those that name their files.
_SECRETS: Final = {each.name + SECRET_FILE: each for each in table() if each.kind.secret}
_Parse = Callable[[bytes], object]
_Stamp = tuple[int, int, int] | None


class SettingFile(NamedTuple):
    """A file, the setting that names it, and the function that reads it; that raises :class:`FileError`."""

    setting: str
    path: str
    parse: _Parse


def names_files(settings: Settings) -> bool:
    """Return true if a setting names a file that can be checked."""
    named = any(_path(settings, name) for name in (*_PLAIN, *_CERTIFICATES, *_SECRETS))
    return named or settings.jwt_jwks_is_url


def setting_files(settings: Settings) -> Iterator[SettingFile]:
    """Yield the files. Libraries that cost time and memory are imported only for files that need them."""
    for name in _PLAIN:
        if path := _path(settings, name):
            yield SettingFile(name, path, _parser(name))
    for name, secret in _SECRETS.items():
        if path := _path(settings, name):
            yield SettingFile(name, path, partial(_check_secret, secret))
    if any(_path(settings, name) for name in _CERTIFICATES):
        from .tls.expiry import client_files, endpoints  # noqa: PLC0415 - see above

        parsed = (each.parsers() for each in endpoints(settings))
        checked = (each.parsers() for each in client_files(settings))
        for file, parse in chain.from_iterable((*parsed, *checked)):
            yield SettingFile(file.name, file.path, parse)


def file_errors(settings: Settings) -> dict[str, str]:
    """Return for each setting with a file why a start would refuse it; empty if it would not."""
    found: dict[str, str] = {}
    for each in setting_files(settings):
        found[each.setting] = found.get(each.setting, "") or _error(each)
    if any(_path(settings, name) for name in _CERTIFICATES):
        from .tls.expiry import problems  # noqa: PLC0415 - see above

        # Certificate and key together; the text begins with the setting.
        found |= {text.partition(" ")[0].rstrip(":"): text for text in problems(settings)}
    return found


def url_error(settings: Settings) -> str:
    """Return why no keys can be fetched from the URL in ``jwt_jwks``; empty if they can, or without a URL.

    Blocks for as long as a fetch may take.
    """
    if not settings.jwt_jwks_is_url:
        return ""
    from .authentication.signing_keys import fetch_error  # noqa: PLC0415 - see setting_files

    error = fetch_error(settings.jwt_jwks)
    return f"jwt_jwks: no keys can be fetched from {settings.jwt_jwks}: {error}" if error else ""


class FileChecks:
    """The errors of the files as of a moment ago. One thread calls :meth:`refresh`, any thread the rest."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._settings = settings
        self._clock = clock
        self._look_at = self._check_at = float("-inf")
        self._stamps: dict[str, _Stamp] = {}
        self._errors: dict[str, str] = {}
        self._keys = _UrlCheck(settings) if settings.jwt_jwks_is_url else None

    def refresh(self) -> None:
        """Check the files if one has changed since the last check, or that was long ago."""
        now = self._clock()
        if self._keys is not None:
            self._keys.refresh(now)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        # Taken before the files are read: a change in between is seen next time.
        stamps = {each.path: _stamp(each.path) for each in setting_files(self._settings)}
        if stamps != self._stamps or now >= self._check_at:
            self._errors = file_errors(self._settings)
            self._stamps, self._check_at = stamps, now + _CHECK_EVERY_S

    def problems(self) -> list[str]:
        """Return a sentence for each file that a start would refuse."""
        found = [f"{text[:_TEXT_MAX]}; the next start would fail" for text in self._errors.values() if text]
        if self._keys is not None and self._keys.error:
            found.append(f"{self._keys.error[:_TEXT_MAX]}; after a start, no token would be accepted")
        return found

    def samples(self) -> list[Sample]:
        """Return a sample for each file, and for keys at a URL once a fetch has ended."""
        errors = dict(self._errors)
        if self._keys is not None and self._keys.error is not None:
            errors["jwt_jwks"] = self._keys.error
        return [Sample("registrar_file_valid", float(not text), (name,)) for name, text in errors.items()]


class _UrlCheck:
    """The last fetch of the keys at their URL, made in a thread so that maintenance does not wait."""

    def __init__(self, settings: Settings) -> None:
        self.error: str | None = None  # None until a fetch has ended
        self._settings = settings
        self._next = float("-inf")
        self._thread: threading.Thread | None = None

    def refresh(self, now: float) -> None:
        """Begin a fetch unless the last one was begun a moment ago or goes on."""
        if now >= self._next and not (self._thread and self._thread.is_alive()):
            self._next = now + _FETCH_EVERY_S
            # It reads what is not ours, so no stop waits for it.
            self._thread = threading.Thread(target=self._fetch, name="keys-check", daemon=True)
            self._thread.start()

    def _fetch(self) -> None:
        self.error = url_error(self._settings)


def _path(settings: Settings, name: str) -> str:
    """Return the path in a setting; empty if it names no file."""
    if name == "jwt_jwks" and settings.jwt_jwks_is_url:
        return ""
    return str(getattr(settings, name))


def _parser(name: str) -> _Parse:
    match name:
        case "users":
            from .authentication.users import parse_users  # noqa: PLC0415 - see setting_files

            return parse_users
        case "rules":
            from .authorization.rules_file import parse as parse_rules  # noqa: PLC0415 - see setting_files

            return parse_rules
        case "policies":
            from .watched_file import parse_policies  # noqa: PLC0415 - see setting_files

            return parse_policies
        case _:
            from .authentication.signing_keys import parse_keys  # noqa: PLC0415 - see setting_files

            return parse_keys


def _check_secret(secret: Setting, content: bytes) -> None:
    try:
        secret.kind.read(secret_of(content))
    except ValueError:
        # The content is a secret, so the reason does not show it.
        raise FileError(f"its content is not allowed; allowed: {secret.kind.allowed}") from None


def _error(file: SettingFile) -> str:
    try:
        WatchedFile(file.path, file.parse)
    except FileError as error:
        return f"{file.setting}: {error}"
    return ""


def _stamp(path: str) -> _Stamp:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
