"""Files of keys and certificates, in PEM and in Java's and PKCS12 stores."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from registry.base.config.setting_types import quote_toml
from registry.security.watched_file import CHECK_EVERY_S, FileError, WatchedFile

_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_TO_PKCS12 = "keytool -importkeystore -deststoretype pkcs12 converts it"


class KeyMaterial(NamedTuple):
    """A certificate with its private key, and the certificates that lead to its authority."""

    certificates: tuple[x509.Certificate, ...]  # the own one first
    key: bytes  # PEM, not encrypted

    def pem(self) -> bytes:
        """Return all of it in one PEM text, as OpenSSL reads it."""
        return self.key + b"".join(
            each.public_bytes(serialization.Encoding.PEM) for each in self.certificates
        )


def certificates(content: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates in a PEM file. Raises :class:`FileError`."""
    try:
        found = tuple(x509.load_pem_x509_certificates(content))
        for each in found:
            each.public_key()  # fails if the key's algorithm is unknown
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FileError(f"contains no valid PEM certificates ({_short(error)})") from None
    return found


def private_key(content: bytes, password: str = "") -> bytes:
    """Return the private key in a PEM file, without encryption. Raises :class:`FileError`."""
    try:
        key = serialization.load_pem_private_key(content, password.encode() or None)
    except TypeError:
        why = "is not encrypted, but a password is set" if password else "is encrypted and needs a password"
        raise FileError(f"holds a private key that {why}") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        wrong = " or the password is wrong" if password else ""
        raise FileError(f"contains no valid PEM private key{wrong} ({_short(error)})") from None
    return _serialize_unencrypted(key)


def keystore(content: bytes, password: str = "") -> KeyMaterial:
    """Return the content of a PKCS12 file. Raises :class:`FileError`."""
    if content.startswith(_JKS):
        raise FileError(f"is a Java keystore in the old format JKS; {_TO_PKCS12}")
    try:
        key, own, others = pkcs12.load_key_and_certificates(content, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FileError(f"is not PKCS12, or the password is wrong ({_short(error)})") from None
    if key is None or own is None:
        raise FileError("contains no private key with a certificate")
    return matching((own, *others), _serialize_unencrypted(key))


def matching(certificates: tuple[x509.Certificate, ...], key: bytes) -> KeyMaterial:
    """Return certificates and key together. Raises :class:`FileError` if the first one has another key."""
    public = serialization.load_pem_private_key(key, None).public_key()
    if _public_bytes(public) != _public_bytes(certificates[0].public_key()):
        raise FileError("the private key does not belong to the certificate")
    return KeyMaterial(certificates, key)


def invalid_now(certificate: x509.Certificate) -> str:
    """Return why a certificate is not valid at this time; empty if it is."""
    now = dt.datetime.now(dt.UTC)
    if now < certificate.not_valid_before_utc:
        return f"is not valid before {_moment(certificate.not_valid_before_utc)}"
    if now > certificate.not_valid_after_utc:
        return f"expired on {_moment(certificate.not_valid_after_utc)}"
    return ""


def _moment(time: dt.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _serialize_unencrypted(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")[:100]


Authorities = tuple[x509.Certificate, ...]
Use = Callable[[KeyMaterial, Authorities], None]
T = TypeVar("T")
# Checks without a change before files are used: what changed right after the others is read by then.
_QUIET_CHECKS = 2
_log = logging.getLogger(__name__)


class FileSetting(NamedTuple):
    """A setting that names a file; an empty path if there is none."""

    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        return f"{self.name} = {quote_toml(self.path)}"


class TlsSettings(NamedTuple):
    """The files of one endpoint: certificate and key, or a keystore; and certificates of authorities.

    Passwords are asked for again whenever what they unlock is read.
    """

    certificate: FileSetting = FileSetting()
    key: FileSetting = FileSetting()
    key_password: Callable[[], str] = str
    keystore: FileSetting = FileSetting()
    keystore_password: Callable[[], str] = str
    authorities: FileSetting = FileSetting()

    def files(self) -> Iterator[FileSetting]:
        """Yield the files that hold certificates."""
        yield from (each for each in (self.certificate, self.keystore, self.authorities) if each.path)

    def certificates_in(self, file: FileSetting, content: bytes) -> tuple[x509.Certificate, ...]:
        """Return the certificates of one of :meth:`files`. Raises :class:`FileError`."""
        if file == self.keystore:
            return keystore(content, self.keystore_password()).certificates
        return certificates(content)

    def parsers(self) -> Iterator[tuple[FileSetting, Callable[[bytes], object]]]:
        """Yield every file with the function that reads it, which raises :class:`FileError`."""
        yield from ((each, partial(self.certificates_in, each)) for each in self.files())
        if self.key.path:
            yield self.key, lambda content: private_key(content, self.key_password())


class TlsFiles:
    """Calls ``use`` with certificates and keys: once at first, and again whenever the files have changed.

    Changes of several files are taken together, because a certificate and its key do not change at the same
    moment. Whatever cannot be used leaves the previous state as it is, and is logged once.
    """

    def __init__(self, settings: TlsSettings, use: Use, *, allow_expired: bool = False) -> None:
        """Raises :class:`FileError`. ``allow_expired``: only log a first certificate that has expired."""
        self._settings = settings
        self._use = use
        self._watched: list[WatchedFile[bytes] | WatchedFile[Authorities]] = []
        self._material = self._watched_material()
        self._authorities = None
        if settings.authorities.path:
            self._authorities = self._watch(settings.authorities, certificates)
        self._build(allow_expired=allow_expired)
        self._used = self._revisions()
        self._quiet = 0
        self._error = ""

    def _watched_material(self) -> Callable[[], KeyMaterial]:
        settings = self._settings
        # What a password unlocks is parsed when it is used, because the password may be renewed after it.
        if settings.keystore.path:
            store = self._watch(settings.keystore, bytes)
            with_password = settings.keystore_password
            return lambda: _naming(settings.keystore, lambda: keystore(store.value, with_password()))
        key = self._watch(settings.key, bytes)
        certificate = self._watch(settings.certificate, certificates)

        def material() -> KeyMaterial:
            found = _naming(settings.key, lambda: private_key(key.value, settings.key_password()))
            return _naming(settings.certificate, lambda: matching(certificate.value, found))

        return material

    def _watch(self, setting: FileSetting, parse: Callable[[bytes], T]) -> WatchedFile[T]:
        try:
            watched = WatchedFile(setting.path, parse)
        except FileError as error:
            reason = str(error.__cause__ or error)
            raise FileError(f"{setting}: {reason}") from None
        self._watched.append(watched)  # type: ignore[arg-type]
        return watched

    async def watch(self, every_s: float = CHECK_EVERY_S) -> None:
        """Check the files again and again until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.check()
            except Exception:
                _log.exception("unexpected error; the previous certificates stay in use")

    async def check(self) -> None:
        """Use files that have changed, unless one of them has changed during the last checks."""
        before = self._revisions()
        for watched in self._watched:
            await watched.check()
        revisions = self._revisions()
        self._quiet = self._quiet + 1 if revisions == before else 0
        if revisions == self._used or self._quiet < _QUIET_CHECKS:
            return
        try:
            await asyncio.to_thread(self._build)
        except FileError as error:
            # Tried again at each check, because a certificate may only become valid with time.
            if str(error) != self._error:
                self._error = str(error)
                _log.error("%s; the previous certificate stays in use", error)
        else:
            self._used, self._error = revisions, ""
            _log.info("the changed certificate is in use")

    def _revisions(self) -> list[int]:
        return [watched.revision for watched in self._watched]

    def _build(self, *, allow_expired: bool = False) -> None:
        named = self._settings.keystore if self._settings.keystore.path else self._settings.certificate
        material = self._material()
        _naming(named, lambda: _check_validity(material, named, allow_expired=allow_expired))
        try:
            self._use(material, () if self._authorities is None else self._authorities.value)
        except ssl.SSLError as error:
            raise FileError(f"{named}: OpenSSL rejects it ({error.reason or error})") from None


def _naming(setting: FileSetting, call: Callable[[], T]) -> T:
    """Return the result of ``call``, or raise its error with the setting in the text."""
    try:
        return call()
    except FileError as error:
        raise FileError(f"{setting}: {error.reason}") from None


def _check_validity(material: KeyMaterial, named: FileSetting, *, allow_expired: bool) -> None:
    why = invalid_now(material.certificates[0])
    if why and not allow_expired:
        raise FileError(f"the certificate {why}")
    if why:
        _log.error("%s: the certificate %s", named, why)
