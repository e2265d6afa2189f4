"""The keyset and its values are those of Confluent's encoder, byte for byte."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from registry.encoder.ciphers import NodeCipher, Secrets
from registry.encoder.keyset import BadKeyset, Keyset, KeysetFile, WrongSecret, key_ids

SECRET, KEY, KEY_ID = "geheim-ß", bytes(range(16)), 3203291818
TYPE = b"type.googleapis.com/google.crypto.tink.AesGcmKey"

# Tink's Keyset, written by hand from the rules of the reference page: field tags, lengths, varints.
PACKED = (
    b"\x08\xaa\xb5\xb9\xf7\x0b"  # 1: primary_key_id
    b"\x12\x54"  # 2: key
    b"\x0a\x48"  # 1: key_data
    b"\x0a\x30" + TYPE + b"\x12\x12\x1a\x10" + KEY + b"\x18\x01"  # type_url, value (3: key_value), SYMMETRIC
    b"\x10\x01\x18\xaa\xb5\xb9\xf7\x0b\x20\x01"  # ENABLED, key_id, TINK
)
# Computed once by the rules of the page: HKDF by two HMACs, AES-128-GCM with the nonces 00…0b and 0c…17.
SEALED_NONCE, VALUE_NONCE = bytes(range(12)), bytes(range(12, 24))
GOLDEN_KEYSET = (
    "AAECAwQFBgcICQoLs3HwK4HvLnro6OmhrkI5LL3t0Gu4VY6dQpYq8Ye3lF3eEYpPBEnDksN3li6ADR6irgKsKxB+DY"
    "CGOGRvpbrwgfe4p/hmNJFTzRnisQZ2n0DuIK0ea8+eVsRrFCpFN7+PlOOAFDo38RiknvWT"
)
GOLDEN_VALUE = "Ab7uWqoMDQ4PEBESExQVFhfzV7TLJLUMdRPvXvHxD3wJbzLg0PNjVmvn"


def hmac_of(key: bytes, data: bytes) -> bytes:
    signer = hmac.HMAC(key, hashes.SHA256())
    signer.update(data)
    return signer.finalize()


def derived(secret: str) -> bytes:
    """RFC 5869 without salt and info; 16 bytes are the beginning of its first block."""
    return hmac_of(hmac_of(bytes(32), secret.encode()), b"\x01")[:16]


def document(secret: str = SECRET) -> bytes:
    """Return the record's value as another program makes it."""
    sealed = SEALED_NONCE + AESGCM(derived(secret)).encrypt(SEALED_NONCE, PACKED, None)
    return json.dumps({"encryptedKeyset": b64encode(sealed).decode(), "keysetInfo": {}}).encode()


def value(plain: str) -> str:
    sealed = AESGCM(KEY).encrypt(VALUE_NONCE, plain.encode(), None)
    return b64encode(b"\x01" + KEY_ID.to_bytes(4, "big") + VALUE_NONCE + sealed).decode()


def opened(data: bytes, secret: str = SECRET) -> bytes:
    """Return the packed keyset in a record's value, as another program reads it."""
    sealed = b64decode(json.loads(data)["encryptedKeyset"])
    return AESGCM(derived(secret)).decrypt(sealed[:12], sealed[12:], None)


def test_a_keyset_of_another_program_is_read() -> None:
    assert Keyset.loads(document(), SECRET) == Keyset(KEY_ID, {KEY_ID: KEY})


def test_golden_bytes() -> None:
    keyset = Keyset.loads(b'{"encryptedKeyset":"%s"}' % GOLDEN_KEYSET.encode(), SECRET)
    assert keyset == Keyset(KEY_ID, {KEY_ID: KEY})
    assert keyset.decrypt(GOLDEN_VALUE) == "geheim-ß"
    assert (json.loads(document())["encryptedKeyset"], value("geheim-ß")) == (GOLDEN_KEYSET, GOLDEN_VALUE)


def test_another_program_reads_the_keyset() -> None:
    data = Keyset(KEY_ID, {KEY_ID: KEY}).dumps(SECRET)
    assert opened(data) == PACKED
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 1
    assert json.loads(data)["keysetInfo"] == {
        "primaryKeyId": KEY_ID,
        "keyInfo": [
            {"typeUrl": TYPE.decode(), "status": "ENABLED", "keyId": KEY_ID, "outputPrefixType": "TINK"}
        ],
    }
    assert key_ids(data) == {KEY_ID}


@pytest.mark.parametrize("plain", ["geheim-ß", "", "x" * 10_000])
def test_values_of_another_program_are_read_and_ours_by_it(plain: str) -> None:
    keyset = Keyset.loads(document(), SECRET)
    assert keyset.decrypt(value(plain)) == plain
    raw = b64decode(keyset.encrypt(plain), validate=True)
    assert raw[:5] == b"\x01" + KEY_ID.to_bytes(4, "big")
    assert AESGCM(KEY).decrypt(raw[5:17], raw[17:], None).decode() == plain
    assert keyset.encrypt(plain) != keyset.encrypt(plain)


def test_an_empty_value_takes_44_characters() -> None:
    assert len(Keyset.new().encrypt("")) == 44


def test_rotation_keeps_the_earlier_keys() -> None:
    before = Keyset.new()
    after = Keyset.loads(before.with_new_primary().dumps("new"), "new")
    assert after.primary != before.primary
    assert after.decrypt(before.encrypt("x")) == "x"
    assert before.decrypt(after.encrypt("x")) is None


def test_a_wrong_secret_opens_nothing() -> None:
    with pytest.raises(WrongSecret):
        Keyset.loads(document(), "another")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"encryptedKeyset": 1}', b'{"encryptedKeyset": "?"}'])
def test_what_is_no_keyset_is_reported(data: bytes) -> None:
    with pytest.raises(BadKeyset):
        Keyset.loads(data, SECRET)


@given(st.text(), st.text())
def test_what_is_encrypted_is_decrypted(plain: str, noise: str) -> None:
    keyset = Keyset.new()
    assert keyset.decrypt(keyset.encrypt(plain)) == plain
    assert keyset.decrypt(noise) is None


def test_a_cipher_says_if_it_would_first_read_or_write_its_keyset(tmp_path: Path) -> None:
    stored, copy = (KeysetFile(tmp_path / name) for name in ("stored", "copy"))
    for folder in ("stored", "copy"):
        (tmp_path / folder).mkdir()
    cipher = NodeCipher(Secrets(SECRET, ""), stored, copy, has_encoded=lambda: False)
    cipher.start()
    assert cipher.is_blocked, "there is no keyset yet"
    cipher.encrypt("plain")
    assert not cipher.is_blocked
    stored.write(b"damaged")
    cipher.reload_and_rotate()
    assert cipher.is_blocked, "the next call tries again to read it"
