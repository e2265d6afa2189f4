"""The ciphers of nodes and readers over keysets in files; ``tests/contract/log/`` has those in a topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.domain.errors import RegistryError
from registry.domain.log_format.records import Entry, Record, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject, metadata
from registry.domain.queries.sensitive_metadata import Cipher, encrypt_entries
from registry.domain.rows.memory_views import DictView
from registry.encoder import ciphers
from registry.encoder.ciphers import NodeCipher, ReaderCipher, Secrets
from registry.encoder.keyset import Keyset, KeysetFile
from registry.log.contract import LogError

OLD, NEW = Secrets("the first secret", ""), Secrets("the second secret", "the first secret")
WRONG = Secrets("another secret", "")
PLAIN = "plain"


class Counted(KeysetFile):
    """Counts how often the keyset is read."""

    reads = 0

    def read(self) -> bytes | None:
        self.reads += 1
        return super().read()


def file(folder: Path) -> Counted:
    folder.mkdir(exist_ok=True)
    return Counted(folder)


class Contended(KeysetFile):
    """Another node has written its keyset, unseen, when the first one of this node is written."""

    def __init__(self, data: Path, other: Keyset, secret: str) -> None:
        super().__init__(data)
        self.others = [other.dumps(secret)]

    def write(self, data: bytes) -> list[bytes]:
        super().write(data)
        others, self.others = self.others, []
        return others


def node(secrets: Secrets, stored: KeysetFile, copy: KeysetFile, *, has_encoded: bool = False) -> NodeCipher:
    return NodeCipher(secrets, stored, copy, has_encoded=lambda: has_encoded)


def record(cipher: Cipher) -> Record:
    """Return the record of a version whose sensitive property is encrypted."""
    subject = Subject.parse("s")
    meta = metadata({"properties": {"pw": PLAIN}, "sensitive": ["pw"]})
    value = schema_value(subject, 1, 7, '"string"', metadata=meta)
    (entry,) = encrypt_entries([Entry(schema_key(subject, 1), value)], DictView(), cipher)
    return Record(0, 1, entry.key, entry.value)


def test_a_reader_decrypts_what_its_node_has_encrypted_also_with_keys_added_since(tmp_path: Path) -> None:
    stored, copy = file(tmp_path / "stored"), file(tmp_path / "copy")
    reader = ReaderCipher(NEW, copy)
    before = node(OLD, stored, copy)
    assert reader.decrypt(Keyset.new().encrypt(PLAIN)) is None, "there is no keyset yet"
    first = before.encrypt(PLAIN)
    assert reader.decrypt(first) == PLAIN
    after = node(NEW, stored, copy)
    after.reload_and_rotate()
    second = after.encrypt(PLAIN)
    assert before.decrypt(second) is None, "it has a key of its own"
    assert [reader.decrypt(each) for each in (first, second)] == [PLAIN] * 2
    with pytest.raises(RegistryError):
        reader.encrypt(PLAIN)


def test_a_reader_keeps_its_keys_and_reports_a_copy_once_that_its_secret_does_not_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = file(tmp_path)
    keyset, unknown = Keyset.new(), Keyset.new().encrypt(PLAIN)
    copy.write(keyset.dumps(OLD.new))
    reader = ReaderCipher(OLD, copy)
    assert reader.decrypt(keyset.encrypt(PLAIN)) == PLAIN
    copy.write(keyset.dumps(WRONG.new))
    assert [reader.decrypt(unknown) for _ in range(3)] == [None] * 3
    assert reader.decrypt(keyset.encrypt(PLAIN)) == PLAIN
    [said] = [each.getMessage() for each in caplog.records]
    assert f"does not open the keyset in the file {copy.path}" in said


def test_a_node_reads_the_keyset_again_for_a_record_with_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    stored = file(tmp_path / "stored")
    one, other = (node(OLD, stored, file(tmp_path / name)) for name in ("one", "other"))
    other.start()
    written = record(one)
    text = one.encrypt(PLAIN)
    assert other.decrypt(text) is None
    other.reload_if_needed([written])
    assert other.decrypt(text) == PLAIN
    assert KeysetFile(tmp_path / "other").read() == stored.read(), "its readers need the key, too"
    reads = stored.reads
    damaged = Record(1, 1, written.key, b'{"metadata":{"properties":{"__enc__":"true"}')
    other.reload_if_needed([written, damaged, Record(2, 1, written.key, None)])
    assert stored.reads == reads, "nothing else calls for it"


def test_a_keyset_that_lacks_a_key_is_not_read_again_for_each_record_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ciphers, "_AGAIN_S", 3600.0)
    stored = file(tmp_path / "stored")
    cipher = node(OLD, stored, file(tmp_path / "copy"))
    lost = [record(Keyset.new()) for _ in range(2)]
    for each in (lost[0], lost[0], lost[1], lost[1], lost[0]):
        cipher.reload_if_needed([each])
    assert stored.reads == 2, "once for each key"


def test_of_two_keysets_that_are_written_at_the_same_time_no_key_is_lost(tmp_path: Path) -> None:
    other, copy = Keyset.new(), file(tmp_path / "copy")
    stored = Contended(tmp_path, other, OLD.new)
    cipher = node(OLD, stored, copy)
    texts = [cipher.encrypt(PLAIN), other.encrypt(PLAIN)]
    assert [cipher.decrypt(each) for each in texts] == [PLAIN] * 2
    for written in (stored, copy):
        again = node(OLD, written, file(tmp_path / "another"))
        again.start()
        assert [again.decrypt(each) for each in texts] == [PLAIN] * 2


def test_a_node_whose_keyset_is_lost_encrypts_nothing_and_says_why_until_it_is_restored(
    tmp_path: Path,
) -> None:
    stored = file(tmp_path / "stored")
    cipher = node(OLD, stored, file(tmp_path / "copy"), has_encoded=True)
    cipher.start()
    assert "holds no keyset: restore it" in cipher.last_error
    with pytest.raises(RegistryError, match="holds no keyset: restore it"):
        cipher.encrypt(PLAIN)
    assert stored.read() is None, "a new one would hide the loss"
    keyset = Keyset.new()
    stored.write(keyset.dumps(OLD.new))
    assert keyset.decrypt(cipher.encrypt(PLAIN)) == PLAIN
    assert cipher.last_error == ""


def test_a_running_node_whose_keyset_becomes_unreadable_encrypts_nothing_and_overwrites_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = file(tmp_path / "stored")
    cipher = node(OLD, stored, file(tmp_path / "copy"))
    text = cipher.encrypt(PLAIN)
    for data, why in (
        (Keyset.new().dumps(WRONG.new), "does not open the keyset"),
        (b"no keyset", "cannot be read: it is not an encrypted keyset"),
    ):
        caplog.clear()
        stored.write(data)
        cipher.reload_and_rotate()
        cipher.reload_if_needed([record(Keyset.new())])
        assert why in cipher.last_error
        with pytest.raises(RegistryError, match=why):
            cipher.encrypt(PLAIN)
        assert cipher.decrypt(text) == PLAIN
        assert stored.read() == data
        assert len(caplog.records) == 1, "it is logged once"
        with pytest.raises(LogError, match=why):
            node(OLD, stored, file(tmp_path / "new")).start()


def test_secrets_are_not_shown() -> None:
    assert NEW.new not in repr(NEW)
    assert NEW.old not in f"{NEW}"
