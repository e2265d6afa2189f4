"""TLS of a server, and the principals that client certificates name.

Rules that were written for Kafka or Confluent's registry match this text (RFC 2253): the most specific part
comes first, and parts without a short name are written as their OID and the bytes of their value.

The syntax is that of Kafka's ``ssl.principal.mapping.rules``: a list of ``RULE:pattern/replacement/[LU]`` and
``DEFAULT``, of which the first that matches the whole name applies. ``L`` and ``U`` change the result to
lower or upper case. RE2 matches, so that no name takes long.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import re2
from cryptography import x509
from cryptography.x509.oid import NameOID

from registry.base.config.settings import Settings
from registry.base.config.sources import current_secret
from registry.base.observe.logs import Throttled
from registry.base.processes.tls_connections import Verified
from registry.security.watched_file import FileError

from .contexts import CLIENT_AUTH, TrustedContexts, expiry, server_context
from .tls_files import Authorities, FileSetting, KeyMaterial, TlsFiles, TlsSettings

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


# As in Kafka: slashes and commas may be part of a pattern after a backslash, commas also without.
_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\$(\d)|\\(.)")
_MEMORY_MAX = 1 << 20  # of a compiled pattern

# Returns the principal's name, or ``None`` if the rule does not apply.
_Rule = Callable[[str], str | None]


class PrincipalRules:
    """The rules of one setting. Raises :class:`ValueError` if they are not valid."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        place = 0
        while place < len(text):
            match = _RULE.match(text, place)
            if match is None:
                raise ValueError(f"expected DEFAULT or RULE:pattern/replacement/ at {text[place:][:60]!r}")
            self._rules.append(_default if match[1] else _mapping(match[2], match[3], match[4]))
            place = match.end()
        if not self._rules:
            raise ValueError("there is no rule")

    def principal(self, subject: str) -> str:
        """Return the principal's name; empty if no rule applies."""
        return next((name for rule in self._rules if (name := rule(subject)) is not None), "")


def _default(subject: str) -> str:
    return subject


def _mapping(pattern: str, replacement: str, case: str) -> _Rule:
    compiled = _compile(pattern)

    def rule(subject: str) -> str | None:
        match = compiled.fullmatch(subject)
        if match is None:
            return None
        name = _replace(replacement, match)
        return name.lower() if case == "L" else name.upper() if case == "U" else name

    return rule


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not valid"
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise ValueError(f"the pattern {pattern!r} is not supported by RE2: {reason}") from None


def _replace(replacement: str, match: Any) -> str:
    """Return the replacement with ``$1`` to ``$9``, or ``$0`` for all; unknown groups stay as they are."""

    def group(reference: re.Match[str]) -> str:
        if reference[2] is not None:
            return str(reference[2])
        number = int(reference[1])
        return (match.group(number) or "") if number <= match.re.groups else str(reference[0])

    return _REFERENCE.sub(group, replacement)


_unnamed = Throttled(logging.getLogger(__name__))


class ServerTls:
    """TLS state that the https listeners of a process share. ``context`` is replaced when files change."""

    context: ssl.SSLContext

    def __init__(self, settings: Settings, *, allow_expired: bool = False) -> None:
        """Raises :class:`FileError`. ``allow_expired``: only log a certificate that has expired."""
        self._trusted = TrustedContexts()
        self._authorities: Authorities = ()
        self._client_auth = CLIENT_AUTH[settings.tls_client_auth]
        try:
            self._rules = PrincipalRules(settings.tls_principal_rules)
        except ValueError as error:
            raise FileError(f"tls_principal_rules: {error}") from None
        files = TlsFiles(tls_settings(settings), self._use, allow_expired=allow_expired)
        self.watch = files.watch

    def _use(self, material: KeyMaterial, authorities: Authorities) -> None:
        context = server_context(material, authorities, client_auth=self._client_auth)
        self._trusted.replace(context, authorities=authorities)
        self._authorities = authorities
        self.context = context

    @property
    def revision(self) -> int:
        """Increases whenever an authority of clients has been removed."""
        return self._trusted.revision

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        return self._trusted.trusts(context)

    def verify(self, certificate: bytes) -> Verified:
        """Return principal and expiry of a verified certificate in DER."""
        try:
            found = x509.load_der_x509_certificate(certificate)
            subject, expires = subject_name(found), expiry(found, self._authorities)
        except ValueError as error:
            _unnamed.warning("a client's certificate cannot be read: %a", str(error))
            return Verified()
        return Verified(self._principal(subject), expires)

    def _principal(self, subject: str) -> str:
        """Return the principal's name; empty if no rule applies, or if it holds what does not print."""
        name = self._rules.principal(subject)
        if not name:
            _unnamed.warning("no rule of tls_principal_rules applies to the client certificate %a", subject)
        elif not name.isprintable():
            # It would reach logs, the audit and headers of proxies.
            _unnamed.warning("the name in the client certificate %a has non-printing characters", subject)
            return ""
        return name


def tls_settings(settings: Settings) -> TlsSettings:
    """Return the files of the public port."""
    return TlsSettings(
        FileSetting("tls_certificate", settings.tls_certificate),
        FileSetting("tls_key", settings.tls_key),
        partial(current_secret, settings.tls_key_password, settings.tls_key_password_file),
        FileSetting("tls_keystore", settings.tls_keystore),
        partial(current_secret, settings.tls_keystore_password, settings.tls_keystore_password_file),
        FileSetting("tls_client_ca", settings.tls_client_ca),
    )
