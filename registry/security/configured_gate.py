"""The gate that the settings describe: open, or with authentication, and with rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from registry.base.config.settings import Settings
from registry.domain.principal import Principal

from .authentication.gate import AuthenticationGate
from .authentication.sessions import FOLDER, Sessions, folder_of_ended, session_keys
from .authentication.signing_keys import KeyUrl, SigningKeys, parse_keys
from .authentication.tokens import Claims, TokenVerifier
from .authentication.users import Users, parse_users
from .authorization import rules_file
from .authorization.rules import Rules
from .gate import FULL_ACCESS, Access, SessionGate
from .watched_file import FileError, WatchedFile


class ConfiguredGate(AuthenticationGate):
    """A gate with the users, keys and rules of the settings, which it keeps up to date."""

    def __init__(self, settings: Settings) -> None:
        """Read the files. Raises :class:`~.watched_file.FileError`."""
        self._watched: list[Callable[[], Awaitable[None]]] = []
        users, keys = self._read_users(settings), self._read_keys(settings)
        self._rules = self._read_rules(settings)
        super().__init__(
            self._access_of,
            users=users,
            tokens=None if keys is None else TokenVerifier(keys, _claims(settings)),
            keys=keys if isinstance(keys, KeyUrl) else None,
            certificates=settings.tls_client_auth != "none",
            processes=settings.readers,
            sessions=_sessions(settings) if users is not None or keys is not None else None,
        )

    @property
    def sessions(self) -> SessionGate | None:
        """The sessions of the console; ``None``: there are none."""
        return self if self.cookie else None

    async def watch(self) -> None:
        """Keep users, keys and rules up to date until cancelled."""
        await asyncio.gather(*(watch() for watch in self._watched))

    def _read_users(self, settings: Settings) -> WatchedFile[Users] | None:
        if not settings.users:
            return None
        users = WatchedFile(settings.users, parse_users, changed=self.forget)
        self._watched.append(users.watch)
        return users

    def _read_rules(self, settings: Settings) -> WatchedFile[Rules] | None:
        if not settings.rules:
            return None
        rules = WatchedFile(settings.rules, rules_file.parse, changed=self.rules_changed)
        self._watched.append(rules.watch)
        return rules

    def _access_of(self, principal: Principal, kind: str) -> Access:
        return FULL_ACCESS if self._rules is None else self._rules.value.access(principal, kind)

    def _read_keys(self, settings: Settings) -> WatchedFile[SigningKeys] | KeyUrl | None:
        if not settings.jwt_jwks:
            return None
        keys: WatchedFile[SigningKeys] | KeyUrl
        if settings.jwt_jwks_is_url:
            keys = KeyUrl(settings.jwt_jwks, changed=self.forget)
        else:
            keys = WatchedFile(settings.jwt_jwks, parse_keys, changed=self.forget)
        self._watched.append(keys.watch)
        return keys


def _sessions(settings: Settings) -> Sessions | None:
    """Return the sessions of the console, ``None`` without one. Raises :class:`~.watched_file.FileError`."""
    if settings.console == "off":
        return None
    folder, secret = settings.data / FOLDER, settings.peer_secret
    try:
        if settings.peer_secret_file:
            secret = Path(settings.peer_secret_file).read_text("utf-8").strip()
        keys = session_keys(folder, [each for each in secret.split("\n") if each])
    except OSError as error:
        raise FileError(f"{folder} cannot be used for sessions of the console: {error.strerror}") from None
    return Sessions(keys, folder_of_ended(settings.data), int(settings.console_session_s))


def _claims(settings: Settings) -> Claims:
    return Claims(
        settings.jwt_issuer,
        tuple(each.strip() for each in settings.jwt_audience.split(",")),
        settings.jwt_principal_claim,
        settings.jwt_groups_claim,
        settings.jwt_clock_skew_s,
    )
