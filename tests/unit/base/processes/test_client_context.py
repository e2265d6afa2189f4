"""Contexts of clients accept what private CAs issue, in each release of Python."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from registry.base.processes.tls_connections import client_context
from tests.support.certificates import Authority, Issued


def shake_hands(client: ssl.SSLContext, issued: Issued, folder: Path, name: str = "localhost") -> None:
    """Let ``client`` connect to a server that shows this certificate. Raises :class:`ssl.SSLError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issued.write(folder, "server"))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert ends[0].version() == "TLSv1.3"


def test_a_certificate_without_identifiers_of_its_authority_is_accepted(tmp_path: Path) -> None:
    """Python 3.13 and later refuse it by default."""
    authority = Authority(plain=True)
    issued = authority.issue()
    assert "authorityKeyIdentifier" not in {each.oid._name for each in issued.certificate.extensions}
    shake_hands(client_context(str(authority.write(tmp_path, "ca"))), issued, tmp_path)


def test_a_file_may_hold_the_intermediate_authority_alone(tmp_path: Path) -> None:
    intermediate = Authority("Intermediate CA", parent=Authority("Root CA"))
    shake_hands(client_context(str(intermediate.write(tmp_path, "ca"))), intermediate.issue(), tmp_path)


@pytest.mark.parametrize("name", ["localhost", "other.example"])
def test_a_certificate_of_another_authority_or_name_is_refused(tmp_path: Path, name: str) -> None:
    mine, other = Authority(), Authority()
    trusted = other if name == "localhost" else mine
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client_context(str(trusted.write(tmp_path, "ca"))), mine.issue(), tmp_path, name)


def test_without_a_file_the_authorities_of_the_system_are_trusted(tmp_path: Path) -> None:
    assert client_context().cert_store_stats() == ssl.create_default_context().cert_store_stats()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client_context(), Authority().issue(), tmp_path)
