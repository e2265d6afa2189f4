"""Certificate authorities, and certificates that they sign."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from registry.forwarding.authentication import Security

_DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates; all files lie in ``folder``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _signed(name, name, self._key, self._key, authority=True)

    def security(self, name: str) -> Security:
        """Return the three files of a node: its certificate, its key, and the signing authority's
        certificate.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        files = {
            f"{name}.pem": _pem(_signed(name, self._name, key, self._key, authority=False)),
            f"{name}.key": key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            f"{self._name}.pem": _pem(self._certificate),
        }
        for file, content in files.items():
            (self._folder / file).write_bytes(content)
        certificate, key_file, authority = (str(self._folder / file) for file in files)
        return Security(certificate=certificate, key=key_file, authority=authority)


def _signed(
    name: str,
    authority_name: str,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(authority_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(by, hashes.SHA256())
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
