"""Client certificates as a server knows them: their principals, and until when they count."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from registry.base.config.loading import load
from registry.security.tls.contexts import TrustedContexts, expiry, server_context
from registry.security.tls.server_tls import ServerTls
from registry.security.tls.tls_files import KeyMaterial
from tests.support.certificates import DAY, Authority, Issued


def der(issued: Issued) -> bytes:
    return issued.certificate.public_bytes(Encoding.DER)


def server(folder: Path, authority: Authority, rules: str = "RULE:^CN=(.*)$/$1/") -> ServerTls:
    certificate, key = authority.issue().write(folder, "server")
    given = {
        "listeners": "https://127.0.0.1:8443",
        "tls_certificate": str(certificate),
        "tls_key": str(key),
        "tls_client_ca": str(authority.write(folder, "ca")),
        "tls_client_auth": "wanted",
        "tls_principal_rules": rules,
    }
    return ServerTls(load(given).settings)


def test_a_certificate_counts_until_it_or_its_authority_expires(tmp_path: Path) -> None:
    authority = Authority(days=3)
    long, short = authority.issue("CN=long", ends=9 * DAY), authority.issue("CN=short", ends=2 * DAY)
    tls = server(tmp_path, authority)
    of_short, of_authority = short.certificate.not_valid_after_utc, authority.certificate.not_valid_after_utc
    assert tls.verify(der(short)) == ("short", of_short.timestamp())
    assert tls.verify(der(long)) == ("long", of_authority.timestamp())
    renewed = Authority(days=20)  # It has the same name.
    both = (authority.certificate, renewed.certificate)
    assert expiry(long.certificate, both) == long.certificate.not_valid_after_utc.timestamp()


def test_contexts_are_trusted_until_an_authority_is_removed() -> None:
    first, second = Authority("first"), Authority("second")
    issued = first.issue()
    material = KeyMaterial((issued.certificate,), issued.key_pem())
    trusted, contexts = TrustedContexts(), []
    for authorities in ([first], [first, second], [second, first], [second]):
        found = tuple(each.certificate for each in authorities)
        contexts.append(server_context(material, found))
        trusted.replace(contexts[-1], authorities=found)
        seen = [trusted.trusts(each) for each in contexts]
        assert seen == (
            [True] * len(contexts) if len(authorities) == 2 or len(contexts) == 1 else [False] * 3 + [True]
        )
    assert trusted.revision == 1


@pytest.mark.parametrize("name", ["CN=eve\nroot", "CN=\x1b[2Jeve", "CN=eve\u202eroot", "CN=a\x7f"])
def test_a_name_that_does_not_print_names_nobody_and_reaches_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    authority = Authority()
    tls = server(tmp_path, authority)
    with caplog.at_level(logging.DEBUG):
        assert tls.verify(der(authority.issue(name))).principal == ""
        assert (
            server(tmp_path, authority, "RULE:^CN=x$/x/").verify(der(authority.issue(name))).principal == ""
        )
    assert all(each.getMessage().isprintable() for each in caplog.records)
