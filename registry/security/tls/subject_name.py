"""The subject's name of a certificate as text, exactly as Java writes it.

Rules that were written for Kafka or Confluent's registry match this text (RFC 2253): the most specific part
comes first, and parts without a short name are written as their OID and the bytes of their value.
"""

from __future__ import annotations

import re

from cryptography import x509
from cryptography.x509.oid import NameOID

_SHORT = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_SPECIAL = re.compile(r'[,+"\\<>;]')
_LONG_FORM = 0x80


def subject_name(certificate: x509.Certificate) -> str:
    """Return the subject's name of a certificate. Raises :class:`ValueError` if it is malformed."""
    parts = reversed(list(certificate.subject.rdns))
    return ",".join("+".join(map(_attribute, part)) for part in parts)


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    short = _SHORT.get(attribute.oid)
    if short is None or isinstance(attribute.value, bytes):
        return f"{short or attribute.oid.dotted_string}=#{_encode(attribute).hex()}"
    return f"{short}={_escape(attribute.value)}"


def _escape(value: str) -> str:
    text = _SPECIAL.sub(r"\\\g<0>", value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    if text.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text


def _encode(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the value with its type and length: what follows the OID in the encoded attribute."""
    rest = x509.Name([attribute]).public_bytes()
    for _ in range(3):  # the name, its part, the attribute
        rest = rest[_head(rest) :]
    return rest[_head(rest) + rest[1] :]  # an OID is shorter than 128 bytes


def _head(encoded: bytes) -> int:
    """Return the length of type and length at the beginning of ``encoded``."""
    return 2 + (encoded[1] & ~_LONG_FORM if encoded[1] & _LONG_FORM else 0)
