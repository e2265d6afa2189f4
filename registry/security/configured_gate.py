"""The gate that the settings describe: open, or with authentication, and with rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from registry.base.config.settings import Settings
from registry.domain.principal import Principal

from .authentication.gate import AuthenticationGate
from .authentication.signing_keys import KeyUrl, SigningKeys, parse_keys
from .authentication.tokens import Claims, TokenVerifier
from .authentication.users import Users, parse_users
from .authorization import rules_file
from .authorization.rules import Rules
from .gate import FULL_ACCESS, Access
from .watched_file import WatchedFile


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
        )

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


def _claims(settings: Settings) -> Claims:
    return Claims(
        settings.jwt_issuer,
        tuple(each.strip() for each in settings.jwt_audience.split(",")),
        settings.jwt_principal_claim,
        settings.jwt_groups_claim,
        settings.jwt_clock_skew_s,
    )
