"""Certificates and keys from files: what is refused, and what follows when files change."""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
import tempfile
from pathlib import Path

import pytest
from cryptography import x509

from registry.security.tls.contexts import server_context
from registry.security.tls.tls_files import (
    Authorities,
    FileSetting,
    KeyMaterial,
    TlsFiles,
    TlsSettings,
    keystore,
)
from registry.security.watched_file import FileError
from tests.support.certificates import DAY, Authority, replace

HOUR = dt.timedelta(hours=1)


class Files:
    """Files of one endpoint, and what was used of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: list[tuple[x509.Certificate, Authorities]] = []
        self.authority = Authority()

    def setting(self, name: str, content: bytes) -> FileSetting:
        path = self.folder / name
        replace(path, content)
        return FileSetting(f"tls_{name}", str(path))

    def use(self, material: KeyMaterial, authorities: Authorities) -> None:
        server_context(material, authorities)
        self.used.append((material.certificates[0], authorities))

    def open(self, settings: TlsSettings, *, allow_expired: bool = False) -> TlsFiles:
        return TlsFiles(settings, self.use, allow_expired=allow_expired)

    def pem(self, certificate: bytes, key: bytes, password: str = "") -> TlsSettings:
        return TlsSettings(
            self.setting("certificate", certificate), self.setting("key", key), lambda: password
        )

    def store(self, content: bytes, password: str) -> TlsSettings:
        return TlsSettings(keystore=self.setting("keystore", content), keystore_password=lambda: password)

    def refusal(self, settings: TlsSettings) -> str:
        with pytest.raises(FileError) as caught:
            self.open(settings)
        assert not self.used
        return str(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_pem_files_are_used(files: Files) -> None:
    for is_rsa in (False, True):
        issued = files.authority.issue(is_rsa=is_rsa)
        files.open(files.pem(issued.pem, issued.key_pem()))
        assert files.used.pop() == (issued.certificate, ())


def test_an_encrypted_key_needs_its_password(files: Files) -> None:
    issued = files.authority.issue()
    files.open(files.pem(issued.pem, issued.key_pem("secret"), "secret"))
    files.used.clear()
    assert "tls_key" in (said := files.refusal(files.pem(issued.pem, issued.key_pem("secret"))))
    assert "is encrypted and needs a password" in said
    assert "password is wrong" in files.refusal(files.pem(issued.pem, issued.key_pem("secret"), "other"))
    assert "is not encrypted" in files.refusal(files.pem(issued.pem, issued.key_pem(), "other"))


def test_a_pkcs12_file_is_used_with_its_chain(files: Files) -> None:
    issued = Authority("Intermediate", parent=files.authority).issue()
    for password in ("secret", ""):
        files.open(files.store(issued.pkcs12(password), password))
        assert files.used.pop()[0] == issued.certificate
    assert keystore(issued.pkcs12("a"), "a").certificates == (issued.certificate, *issued.chain)


def test_a_keystore_of_java_is_used(files: Files) -> None:
    path = files.folder / "made.p12"
    made = ["keytool", "-genkeypair", "-storetype", "PKCS12", "-keystore", str(path), "-alias", "a"]
    given = ["-storepass", "changeit", "-keyalg", "EC", "-dname", "CN=java"]
    subprocess.run([*made, *given], check=True, capture_output=True)
    files.open(files.store(path.read_bytes(), "changeit"))
    assert files.used[0][0].subject.rfc4514_string() == "CN=java"


def test_broken_files_are_refused_with_the_setting_and_the_reason(files: Files) -> None:
    issued, other = files.authority.issue(), files.authority.issue()
    good = files.pem(issued.pem, issued.key_pem())
    said = files.refusal(good._replace(certificate=files.setting("broken", b"nothing")))
    assert said.startswith('tls_broken = "')
    assert "contains no valid PEM certificates" in said
    assert "no valid PEM private key" in files.refusal(files.pem(issued.pem, issued.pem))
    said = files.refusal(files.pem(issued.pem, other.key_pem()))
    assert said.startswith('tls_certificate = "')
    assert "the private key does not belong to the certificate" in said
    assert "cannot be read" in files.refusal(good._replace(key=FileSetting("tls_key", "/nowhere")))
    assert "the password is wrong" in files.refusal(files.store(issued.pkcs12("a"), "b"))
    assert "-deststoretype pkcs12" in files.refusal(files.store(b"\xfe\xed\xfe\xed\0\0\0\2", "a"))


def test_a_certificate_that_is_not_valid_now_is_refused(files: Files) -> None:
    expired = files.authority.issue(begins=-2 * DAY, ends=-1 * HOUR)
    assert "the certificate expired on " in files.refusal(files.pem(expired.pem, expired.key_pem()))
    early = files.authority.issue(begins=HOUR, ends=DAY)
    assert "is not valid before " in files.refusal(files.pem(early.pem, early.key_pem()))


def test_a_process_that_is_restarted_serves_an_expired_certificate(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    expired = files.authority.issue(begins=-2 * DAY, ends=-1 * HOUR)
    files.open(files.pem(expired.pem, expired.key_pem()), allow_expired=True)
    assert files.used[0][0] == expired.certificate
    assert "expired on" in caplog.text


async def settled(opened: TlsFiles) -> None:
    """Check often enough to take all that has changed: it is seen, read and used one after the other."""
    for _ in range(5):
        await opened.check()


def test_a_certificate_and_its_key_are_replaced_together(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        before, after = files.authority.issue(), files.authority.issue()
        opened = files.open(files.pem(before.pem, before.key_pem()))
        files.setting("certificate", after.pem)
        await opened.check()
        await opened.check()  # the certificate has been read, the key not yet
        files.setting("key", after.key_pem())
        await settled(opened)
        assert [each[0] for each in files.used] == [before.certificate, after.certificate]

    asyncio.run(main())
    assert not [each for each in caplog.records if each.levelname != "INFO"]


@pytest.mark.parametrize("broken", ["nothing", "mismatch", "expired", "missing"])
def test_files_that_cannot_be_used_leave_the_previous_ones_in_use(
    files: Files, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    async def main() -> None:
        before, after = files.authority.issue(), files.authority.issue()
        expired = files.authority.issue(begins=-2 * DAY, ends=-1 * HOUR)
        opened = files.open(files.pem(before.pem, before.key_pem()))
        if broken == "expired":
            files.pem(expired.pem, expired.key_pem())
        elif broken == "missing":
            (files.folder / "certificate").unlink()
        else:
            files.setting("certificate", b"" if broken == "nothing" else after.pem)
        await settled(opened)
        await settled(opened)
        assert len(files.used) == 1
        assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
        files.pem(after.pem, after.key_pem())
        await settled(opened)
        assert files.used[-1][0] == after.certificate

    asyncio.run(main())


@pytest.mark.parametrize("keystore", [False, True])
@pytest.mark.parametrize("password_first", [False, True])
def test_a_password_is_renewed_with_what_it_unlocks(
    files: Files, caplog: pytest.LogCaptureFixture, keystore: bool, password_first: bool
) -> None:
    """In either order; until both are there, the previous certificate stays in use."""

    async def main() -> None:
        before, after = files.authority.issue(), files.authority.issue()
        password = ["old"]
        if keystore:
            settings = files.store(before.pkcs12("old"), "")._replace(keystore_password=lambda: password[0])
        else:
            settings = files.pem(before.pem, before.key_pem("old"))._replace(key_password=lambda: password[0])
        opened = files.open(settings)
        if password_first:
            password[0] = "new"
            await settled(opened)
        if keystore:
            files.setting("keystore", after.pkcs12("new"))
        else:
            files.pem(after.pem, after.key_pem("new"))
        await settled(opened)
        if not password_first:
            assert len(files.used) == 1
            assert len([each for each in caplog.records if "the password is wrong" in each.message]) == 1
            password[0] = "new"
            await settled(opened)
        assert [each[0] for each in files.used] == [before.certificate, after.certificate]

    asyncio.run(main())


def test_changed_authorities_are_used(files: Files) -> None:
    async def main() -> None:
        issued, other = files.authority.issue(), Authority("Other CA")
        authorities = files.setting("client_ca", files.authority.pem)
        opened = files.open(files.pem(issued.pem, issued.key_pem())._replace(authorities=authorities))
        files.setting("client_ca", other.pem)
        await settled(opened)
        assert [each[1] for each in files.used] == [(files.authority.certificate,), (other.certificate,)]

    asyncio.run(main())


def test_a_private_key_is_nowhere_on_the_disk_afterwards(files: Files, tmp_path: Path) -> None:
    issued = files.authority.issue()
    seen = set(Path(tempfile.gettempdir()).iterdir())
    opened = set(Path("/proc/self/fd").iterdir())
    context = server_context(keystore(issued.pkcs12("a"), "a"))
    assert context.cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}
    assert set(Path("/proc/self/fd").iterdir()) == opened
    made = set(Path(tempfile.gettempdir()).iterdir()) - seen
    assert not [each for each in made if each.is_file() and b"PRIVATE KEY" in each.read_bytes()]
