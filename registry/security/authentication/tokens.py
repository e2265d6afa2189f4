"""Bearer tokens: JSON Web Tokens (RFC 7519) that an issuer has signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jwt

from registry.domain.principal import Principal

from .signing_keys import ALGORITHMS, SigningKeys

TOKEN_BYTES_MAX = 16 * 1024
_NAME_CHARACTERS_MAX = 255
_GROUPS_MAX = 1000
# Reasons that a client may learn, in the order in which they apply; the signature is valid in these cases.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "the token has expired"),
    (jwt.ImmatureSignatureError, "the token is not valid yet"),
    (jwt.InvalidAudienceError, "the token is for another audience"),
    (jwt.InvalidIssuerError, "the token is from another issuer"),
    (jwt.MissingRequiredClaimError, "the token lacks a required claim"),
)


class TokenError(Exception):
    """An invalid token; the text is the reason, without anything from the token."""


class UnknownKey(TokenError):
    """A token signed with a key that is not among the issuer's, or not yet."""


class VerifiedToken(NamedTuple):
    """Claims of a valid token."""

    principal: Principal
    expires: float  # in seconds since 1970, with the clock skew


class KeySource(Protocol):
    """The issuer's current keys."""

    @property
    def value(self) -> SigningKeys:
        """The keys."""
        ...


class Claims(NamedTuple):
    """The claims that tokens must have, and those that name principal and groups."""

    issuer: str
    audiences: tuple[str, ...]  # of which a token has at least one
    principal: str = "sub"
    groups: str = ""  # empty for none
    clock_skew_s: float = 60.0


class TokenVerifier:
    """Verifies tokens of one issuer."""

    def __init__(self, keys: KeySource, claims: Claims) -> None:
        self._keys = keys
        self._claims = claims

    def verify(self, token: bytes) -> VerifiedToken:
        """Return the claims of a valid token; raise :class:`TokenError` for any other.

        Takes well below a millisecond for common algorithms, so it runs on the event loop.
        """
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenError("the token is too long")
        try:
            return self._verify(token)
        except TokenError:
            raise
        except (
            Exception
        ) as error:  # Any error of a parser on hostile bytes means that the token is not valid.
            found = (reason for kind, reason in _REASONS if isinstance(error, kind))
            raise TokenError(next(found, "the token is not valid")) from None

    def _verify(self, token: bytes) -> VerifiedToken:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenError("the token's algorithm is not allowed")
        keys = self._keys.value.find(key_id)
        if not keys:
            raise UnknownKey("the token is signed with an unknown key")
        key = next((each for each in keys if algorithm in each.algorithms), None)
        if key is None:
            raise TokenError("the token's algorithm does not fit its key")
        wanted = self._claims
        claims = jwt.decode(
            token,
            key.public,
            algorithms=[algorithm],
            audience=wanted.audiences,
            issuer=wanted.issuer,
            leeway=wanted.clock_skew_s,
            options={"require": ["exp", "iss", "aud"]},
        )
        principal = Principal(_name(_claim(claims, wanted.principal)), self._groups(claims))
        return VerifiedToken(principal, int(claims["exp"]) + wanted.clock_skew_s)

    def _groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        found = _claim(claims, self._claims.groups) if self._claims.groups else None
        if found is None:
            return frozenset()
        listed = found.split() if isinstance(found, str) else found
        if not isinstance(listed, list) or len(listed) > _GROUPS_MAX:
            raise TokenError("the token's groups are not a list of names")
        return frozenset(_name(group) for group in listed)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name or a path with dots, such as ``realm_access.roles``; ``None`` without it."""
    if name in claims:
        return claims[name]  # Names may be URLs, which contain dots.
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_CHARACTERS_MAX or not value.isprintable():
        raise TokenError("the token does not name its principal or groups as configured")
    return value
