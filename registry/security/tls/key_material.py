"""Certificates and private keys, from PEM and PKCS12 files."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from registry.security.watched_file import FileError

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
        raise FileError(f"holds no valid certificates in PEM ({_short(error)})") from None
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
        raise FileError(f"holds no valid private key in PEM{wrong} ({_short(error)})") from None
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
        raise FileError("holds no private key with a certificate")
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
