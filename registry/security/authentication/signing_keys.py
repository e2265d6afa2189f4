"""Keys that sign tokens, from a file or a URL (JWKS)."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, build_opener

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


REFRESH_S = 300.0
RETRY_S = 10.0  # Seconds after a failure, and between refreshes caused by unknown key ids.
_ANSWER_TIMEOUT_S = 5.0
_FETCH_TIMEOUT_S = 10.0  # with names resolved and a proxy
_PIECE_BYTES = 64 * 1024

_log = logging.getLogger(__name__)


class KeyUrl:
    """The keys that an issuer publishes at a URL."""

    def __init__(
        self,
        url: str,
        *,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``changed`` is called after each new set of keys; ``clock`` is monotonic, in seconds."""
        self._url = url
        self._changed = changed
        self._clock = clock
        self._content = b""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="signing-keys")
        self._fetching: asyncio.Task[None] | None = None
        self._fetched_at = -RETRY_S  # when the last fetch began
        self.value = SigningKeys({})
        self.error = ""

    @property
    def is_loaded(self) -> bool:
        """True once a set of keys was fetched."""
        return bool(self._content)

    async def watch(self) -> None:
        """Fetch the keys now and again until cancelled."""
        while True:
            await self._fetch()
            await asyncio.sleep(RETRY_S if self.error else REFRESH_S)

    async def refresh(self) -> None:
        """Fetch the keys because of an unknown key id, unless that was done a short time ago."""
        if self._fetching is not None or self._clock() - self._fetched_at >= RETRY_S:
            await self._fetch()

    def close(self) -> None:
        """End the thread; a fetch in progress ends with its time limit."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _fetch(self) -> None:
        """Fetch the keys; concurrent callers wait for the same answer."""
        if self._fetching is None:
            self._fetched_at = self._clock()
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_once())
        await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(_FETCH_TIMEOUT_S):
                content, keys = await loop.run_in_executor(self._thread, _download, self._url)
        except (OSError, HTTPException, ValueError) as error:  # TimeoutError and FileError are among them
            self._keep(str(error) or "timed out")
        except Exception:
            _log.exception("unexpected error while fetching signing keys from %s", self._url)
            self._keep("unexpected error")
        else:
            self._take(content, keys)
        finally:
            self._fetching = None

    def _take(self, content: bytes, keys: SigningKeys) -> None:
        if self.error:
            _log.info("signing keys can be fetched from %s again", self._url)
        self.error = ""
        if content != self._content:
            self._content, self.value = content, keys
            _log.info("signing keys from %s have changed", self._url)
            self._changed()

    def _keep(self, error: str) -> None:
        if error != self.error:
            kept = "keeping the previous ones" if self._content else "tokens cannot be verified"
            _log.error("cannot fetch signing keys from %s: %s; %s, retrying", self._url, error, kept)
        self.error = error


def fetch_error(url: str) -> str:
    """Return why no keys can be fetched from ``url``; empty if they can. Blocks for seconds at most."""
    found = ["timed out"]

    def fetch() -> None:
        try:
            _download(url)
            found[0] = ""
        except (OSError, HTTPException, ValueError) as error:
            found[0] = str(error) or "timed out"

    # In a thread, because the resolution of names has no time limit of its own.
    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(_FETCH_TIMEOUT_S)
    return found[0]


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, which could lead to another host or away from TLS."""

    def redirect_request(self, *_: Any) -> None:
        """Return no further request."""


def _download(url: str) -> tuple[bytes, SigningKeys]:
    """Return the document at ``url`` and its keys, within limits of bytes and time."""
    deadline = time.monotonic() + _ANSWER_TIMEOUT_S
    content = b""
    try:
        with build_opener(_NoRedirects).open(url, timeout=_ANSWER_TIMEOUT_S) as answer:
            while piece := answer.read1(_PIECE_BYTES):
                content += piece
                if len(content) > JWKS_BYTES_MAX:
                    raise FileError(f"the answer has more than {JWKS_BYTES_MAX} bytes")
                if time.monotonic() > deadline:
                    raise FileError("the answer did not arrive in time")
    except HTTPError as error:
        with error:
            raise FileError(f"the answer is HTTP {error.code}") from None
    try:
        return content, parse_keys(content)
    except FileError as error:
        raise FileError(f"the answer {error.reason}") from None
