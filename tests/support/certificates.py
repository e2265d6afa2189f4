"""Certificate authorities, certificates and keys, made for one test."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

DAY = dt.timedelta(days=1)
LOOPBACK = ipaddress.ip_address("127.0.0.1")
LOOPBACK_NAMES = (x509.DNSName("localhost"), x509.DNSName("registry.example"), x509.IPAddress(LOOPBACK))
Key = CertificateIssuerPrivateKeyTypes
_SIGNS = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Issued:
    """A certificate with its key; ``chain`` holds the certificates that lead to its authority."""

    def __init__(self, certificate: x509.Certificate, key: Key, chain: list[x509.Certificate]) -> None:
        self.certificate = certificate
        self.key = key
        self.chain = chain

    @property
    def pem(self) -> bytes:
        return b"".join(
            each.public_bytes(serialization.Encoding.PEM) for each in (self.certificate, *self.chain)
        )

    def key_pem(self, password: str = "") -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _encryption(password)
        )

    def pkcs12(self, password: str = "") -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"registry", self.key, self.certificate, self.chain, _encryption(password)
        )

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write certificate and key as PEM files; return their paths."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        replace(certificate, self.pem)
        replace(key, self.key_pem())
        return certificate, key


class Authority:
    """A certificate authority, as RFC 5280 demands, or ``plain`` as private ones often are."""

    def __init__(
        self, name: str = "Test CA", parent: Authority | None = None, days: int = 10, *, plain: bool = False
    ) -> None:
        self._parent = parent
        self._plain = plain
        self._key: Key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"CN={name}")
        builder = _builder(self._name, self._key.public_key(), -1 * DAY, days * DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        issuer = parent or self
        if not plain:
            builder = builder.add_extension(_SIGNS, critical=True)
            builder = builder.add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
        self.certificate = issuer._sign(builder)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def java_truststore(self, password: str) -> bytes:
        """Return a PKCS12 file in which Java finds this authority."""
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        return pkcs12.serialize_java_truststore([trusted], _encryption(password))

    def write(self, folder: Path, name: str) -> Path:
        path = folder / f"{name}.pem"
        replace(path, self.pem)
        return path

    def issue(
        self,
        subject: str = "CN=registry.example",
        *,
        begins: dt.timedelta = -1 * DAY,
        ends: dt.timedelta = 5 * DAY,
        is_rsa: bool = False,
        names: Sequence[x509.GeneralName] = LOOPBACK_NAMES,
    ) -> Issued:
        """Issue a certificate for ``names``, for servers and clients, from ``begins`` to ``ends``.

        Its key is RSA only where a test asks for it, because that is slow to make.
        """
        key: Key = (
            rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
        )
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(subject), key.public_key(), begins, ends)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        chain = [] if self._parent is None else [self.certificate]
        return Issued(self._sign(builder), key, chain)

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        if not self._plain:
            identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(identifier, critical=False)
        return builder.issuer_name(self._name).sign(self._key, hashes.SHA256())


def replace(path: Path, content: bytes) -> None:
    """Replace a file at once, as tools that renew certificates do."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


def _encryption(password: str) -> serialization.KeySerializationEncryption:
    if not password:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


def _name(text: str) -> x509.Name:
    return x509.Name.from_rfc4514_string(text)


def _builder(
    name: x509.Name, key: object, begins: dt.timedelta, ends: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key)  # type: ignore[arg-type]
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )
