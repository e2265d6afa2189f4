"""Public keys of token issuers: JSON Web Key Sets (RFC 7517)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWTError

from registry.security.watched_file import FileError

JWKS_BYTES_MAX = 1024 * 1024
_KEYS_MAX = 200
_NAME_CHARACTERS_MAX = 512
_RSA_BITS_MIN, _RSA_BITS_MAX = 2048, 16384
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
# Algorithms by type and curve. Symmetric ones and "none" are left out on purpose.
_ALGORITHMS: Mapping[tuple[str, str], frozenset[str]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
    ("OKP", "Ed448"): frozenset({"EdDSA"}),
}
ALGORITHMS = frozenset[str]().union(*_ALGORITHMS.values())
# Members of a public key; others, such as those of a private key, are not read.
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")


class SigningKey(NamedTuple):
    """A public key, and the algorithms for which it may be used."""

    public: Any
    algorithms: frozenset[str]


class SigningKeys:
    """The keys of one issuer, by their ids."""

    def __init__(self, keys: Mapping[str, tuple[SigningKey, ...]]) -> None:
        self._keys = keys

    def find(self, key_id: str | None) -> tuple[SigningKey, ...]:
        """Return the keys of this id; without an id the only key, if there is only one."""
        if key_id is not None:
            return self._keys.get(key_id, ())
        only = next(iter(self._keys.values()), ())
        return only if len(self._keys) == 1 and len(only) == 1 else ()


def parse_keys(content: bytes) -> SigningKeys:
    """Return the keys in a JWKS document that can verify signatures; raise :class:`FileError` if none can.

    Keys of other kinds or for another use are skipped, as the standard requires.
    """
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise FileError(f"is not JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError):
        raise FileError("is not JSON") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > _KEYS_MAX:
        raise FileError(f'is not a JSON Web Key Set: an object with a list "keys" of at most {_KEYS_MAX}')
    keys: dict[str, tuple[SigningKey, ...]] = {}
    for entry in listed:
        key = _key(entry) if isinstance(entry, dict) else None
        if key is not None:
            key_id = entry.get("kid", "")
            keys[key_id] = (*keys.get(key_id, ()), key)
    if not keys:
        raise FileError("has no public key for signatures of the supported algorithms")
    return SigningKeys(keys)


def _key(entry: dict[str, Any]) -> SigningKey | None:
    members = {name: entry[name] for name in _PUBLIC if name in entry}
    if not all(isinstance(member, str) for member in members.values()):
        return None
    key_id = entry.get("kid", "")
    if not isinstance(key_id, str) or len(key_id) > _NAME_CHARACTERS_MAX or not _is_for_signatures(entry):
        return None
    algorithms = _ALGORITHMS.get((members.get("kty", ""), members.get("crv", "")), frozenset())
    if "alg" in entry:
        algorithms = algorithms & {entry["alg"]} if isinstance(entry["alg"], str) else frozenset()
    if not algorithms:
        return None
    try:
        public = PyJWK(members, algorithm=min(algorithms)).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if isinstance(public, RSAPublicKey) and not _RSA_BITS_MIN <= public.key_size <= _RSA_BITS_MAX:
        return None
    return SigningKey(public, algorithms)


def _is_for_signatures(entry: dict[str, Any]) -> bool:
    operations = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
