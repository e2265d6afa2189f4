"""The files that settings name, checked as a start checks them.

A process keeps the last valid content of a file that is broken later, so that nothing fails until the next
start, which refuses it. These checks find such a file before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from registry.base.config.settings import Settings
from registry.base.observe.metrics import Sample

from .watched_file import FileError, WatchedFile

LOOK_EVERY_S: Final = 5.0
# Certificates also become invalid without a change.
_CHECK_EVERY_S: Final = 600.0
_TEXT_MAX: Final = 300
_PLAIN: Final = ("users", "rules", "policies", "jwt_jwks")
_CERTIFICATES: Final = (
    "tls_certificate", "tls_keystore", "tls_client_ca", "peer_tls_certificate",
    "kafka_ssl_certificate_location", "kafka_ssl_ca_location",
)  # fmt: skip
_Parse = Callable[[bytes], object]
_Stamp = tuple[int, int, int] | None


class SettingFile(NamedTuple):
    """A file, the setting that names it, and the function that reads it; that raises :class:`FileError`."""

    setting: str
    path: str
    parse: _Parse


def names_files(settings: Settings) -> bool:
    """Return true if a setting names a file that can be checked."""
    return any(_path(settings, name) for name in (*_PLAIN, *_CERTIFICATES))


def setting_files(settings: Settings) -> Iterator[SettingFile]:
    """Yield the files. Libraries that cost time and memory are imported only for files that need them."""
    for name in _PLAIN:
        if path := _path(settings, name):
            yield SettingFile(name, path, _parser(name))
    if any(_path(settings, name) for name in _CERTIFICATES):
        from .tls.expiry import endpoints  # noqa: PLC0415 - see above

        for tls in endpoints(settings):
            yield from (SettingFile(file.name, file.path, parse) for file, parse in tls.parsers())


def file_errors(settings: Settings) -> dict[str, str]:
    """Return for each setting with a file why a start would refuse it; empty if it would not."""
    found = {each.setting: _error(each) for each in setting_files(settings)}
    if any(_path(settings, name) for name in _CERTIFICATES):
        from .tls.expiry import problems  # noqa: PLC0415 - see above

        # Certificate and key together; the text begins with the setting.
        found |= {text.partition(" ")[0].rstrip(":"): text for text in problems(settings)}
    return found


class FileChecks:
    """The errors of the files as of a moment ago. One thread calls :meth:`refresh`, any thread the rest."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._settings = settings
        self._clock = clock
        self._look_at = self._check_at = float("-inf")
        self._stamps: dict[str, _Stamp] = {}
        self._errors: dict[str, str] = {}

    def refresh(self) -> None:
        """Check the files if one has changed since the last check, or that was long ago."""
        now = self._clock()
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
        return [f"{text[:_TEXT_MAX]}; the next start would fail" for text in self._errors.values() if text]

    def samples(self) -> list[Sample]:
        """Return a sample for each file."""
        return [
            Sample("registrar_file_valid", float(not text), (name,)) for name, text in self._errors.items()
        ]


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
            from .policies_file import parse_policies  # noqa: PLC0415 - see setting_files

            return parse_policies
        case _:
            from .authentication.signing_keys import parse_keys  # noqa: PLC0415 - see setting_files

            return parse_keys


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
