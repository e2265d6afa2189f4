"""Files of users: this registry's own, Confluent's and Karapace's."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.principal import Principal
from registry.security.authentication.passwords import Argon2, hash_password
from registry.security.authentication.users import Users, parse_users
from registry.security.watched_file import FileError

# Of the password "secret", with parameters that make it fast.
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
OTHER = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"


def right(users: Users, name: bytes, password: bytes) -> Principal | None:
    """Return the user's principal if the password is right."""
    user = users.get(name)
    return user.principal if user is not None and user.password.matches(password) else None


def refused(content: bytes | str) -> FileError:
    with pytest.raises(FileError) as caught:
        parse_users(content.encode() if isinstance(content, str) else content)
    return caught.value


def test_a_file_of_hashes_names_users_and_their_groups() -> None:
    lines = f"# people\n\nalice:{SECRET}:team-a,team-b\n  bob:{OTHER}\r\nÄnne:{SECRET}\n"
    users = parse_users(lines.encode())
    assert len(users) == 3
    assert right(users, b"alice", b"secret") == Principal("alice", frozenset({"team-a", "team-b"}))
    assert right(users, "Änne".encode(), b"secret") == Principal("Änne")
    assert right(users, b"alice", b"Secret") is None
    assert right(users, b"bob", b"secret") is None
    assert users.get(b"ALICE") is None


@pytest.mark.parametrize("content", [b"", b"# nobody yet\n", b"\xef\xbb\xbf\n"])
def test_a_file_without_users_is_valid(content: bytes) -> None:
    """The last user may be removed, who would stay otherwise."""
    assert len(parse_users(content)) == 0


def test_a_new_password_is_hashed_by_argon2id_with_a_salt() -> None:
    first, second = hash_password("pass word"), hash_password("pass word")
    assert first != second
    assert Argon2(first).matches(b"pass word")
    assert not Argon2(first).matches(b"pass")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"alice:{SECRET}\nalice:{OTHER}", "the user 'alice' is listed twice"),
        (f"alice:{SECRET}\nbob", "expected NAME:HASH or NAME:HASH:GROUP,GROUP"),
        (f"alice:{SECRET}\nbob:secret", "the hash of 'bob' is not an argon2id hash of version 19"),
        (f"alice:{SECRET}\nbob:{SECRET}x", "the hash of 'bob' is not an argon2id hash of version 19"),
        (f"alice:{SECRET}\n:{SECRET}", "a name has 1 to 255 bytes, without spaces around it"),
        (f"alice:{SECRET}\nb,b:{SECRET}", "a name has no colon, comma"),
        (f"alice:{SECRET}\nbob:{SECRET}:a,,b", "a group has 1 to 255 bytes"),
        (f"alice:{SECRET}\n{'b' * 256}:{SECRET}", "a name has 1 to 255 bytes"),
        (f"alice:{SECRET}\nbob:{SECRET}:{'g' * 5000}", "the line has more than 4096 characters"),
        (f"alice:{SECRET}\nbob:{SECRET.replace('m=16', 'm=9999999')}", "would cost too much to verify"),
        (f"alice:{SECRET}\nbob:{SECRET.replace('t=1', 't=999')}", "would cost too much to verify"),
        (f"alice:{SECRET}\nbob:{SECRET.replace('argon2id', 'argon2i')}", "is not an argon2id hash"),
        (f"alice:{SECRET}\nbob:{SECRET.replace('m=16', 'm=0')}", "is not an argon2id hash"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number_and_the_reason(line: str, reason: str) -> None:
    error = refused(line)
    assert error.line == 2
    assert reason in error.reason


def test_a_file_of_hashes_is_utf_8() -> None:
    error = refused(b"alice:" + SECRET.encode() + b"\n\nb\xff:" + SECRET.encode())
    assert (error.reason, error.line) == ("is not UTF-8", 3)


# --- Confluent's


def test_a_property_file_is_read_as_java_and_jetty_do() -> None:
    users = parse_users(
        b"# users\n! more\n\n"
        b"alice: secret,admin, developer\n"
        b"bob = pass:word \n"
        b"carol\\ ann\tspaces allowed,ops\n"
        b"dave=con\\\n   tinued,r1,\\\n  r2\n"
        b"erin: uni\\u0063ode\r\n"
        b"nobody:\n"
        b"alice: changed,user\n"
        b"fr\xc3\xa9d: caf\xc3\xa9\n"
    )
    assert right(users, b"alice", b"changed") == Principal("alice", frozenset({"user"}))
    assert right(users, b"alice", b"secret") is None
    assert right(users, b"bob", b"pass:word") == Principal("bob")
    assert right(users, b"carol ann", b"spaces allowed") == Principal("carol ann", frozenset({"ops"}))
    assert right(users, b"dave", b"continued") == Principal("dave", frozenset({"r1", "r2"}))
    assert right(users, b"erin", b"unicode") == Principal("erin")
    assert right(users, "fréd".encode(), "café".encode()) == Principal("fréd")
    assert users.get(b"nobody") is None


@pytest.mark.parametrize(
    ("stored", "password"),
    [
        # From Jetty's documentation.
        ("OBF:1vny1zlo1x8e1vnw1vn61x8g1zlu1vn4", b"storepwd"),
        ("OBF:1u2u1wml1z7s1z7a1wnl1u2g", b"keypwd"),
        ("MD5:5ebe2294ecd0e0f08eab7690d2a6ee69", b"secret"),
        ("plain", b"plain"),
    ],
)
def test_passwords_of_a_property_file_have_jetty_s_forms(stored: str, password: bytes) -> None:
    users = parse_users(f"alice: {stored},admin\n".encode())
    assert right(users, b"alice", password) == Principal("alice", frozenset({"admin"}))
    assert right(users, b"alice", password + b"x") is None
    assert right(users, b"alice", stored.encode() + b"x") is None


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ("CRYPT:ad1ks..kc.1Ug", "is in the format CRYPT:, which is not supported"),
        ("MD5:5ebe", "is not an MD5 hash of 32 hexadecimal digits"),
        ("OBF:zzzz", "is not obfuscated as Jetty does it"),
        ("OBF:", "is not obfuscated as Jetty does it"),
        (SECRET, "is an argon2 hash; such a file must begin with a line NAME:HASH"),
        ("x" * 1025, "has more than 1024 bytes"),
        ("\\u12", "\\u is not followed by four hexadecimal digits"),
        ("x" * 5000, "the line has more than 4096 characters"),
    ],
)
def test_a_password_of_a_form_that_is_not_supported_is_refused(stored: str, reason: str) -> None:
    error = refused(f"# users\nalice: secret\nbob: {stored}\n")
    assert reason in error.reason
    assert error.line == 3


# --- Karapace's


def karapace(*users: object) -> bytes:
    return json.dumps({"users": users, "permissions": []}).encode()


def test_a_name_that_does_not_print_is_refused_in_a_property_file() -> None:
    for content in (b"a\\u000ab: pw,role\n", b"a: pw,ro\\u001ble\n"):
        assert "non-printing characters" in refused(content).reason


# As karapace_mkpasswd prints it, in Karapace's documentation.
PRINTED = {
    "username": "user",
    "algorithm": "sha512",
    "salt": "iuLouaExTeg9ypqTxqP-dw",
    "password_hash": "R6ghYSXdLGsq6hkQcg8wT4xkD4QToxBhlp7NerTnyB07"
    "7M+mD2qiN7ZxXCDb4aE+5lExu5P11UpMPYAcVYxSQA==",
}


def test_a_karapace_file_is_read_as_it_is() -> None:
    digest = hashlib.scrypt(b"pass", salt=b"salt", n=16384, r=8, p=1)
    encoded = base64.b64encode(digest).decode()
    other = {"username": "admin", "algorithm": "scrypt", "salt": "salt", "password_hash": encoded}
    users = parse_users(karapace(PRINTED, other))
    assert right(users, b"user", b"secret") == Principal("user")
    assert right(users, b"user", b"pass") is None
    assert right(users, b"admin", b"pass") == Principal("admin")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"algorithm": "md5"}, "has an unknown algorithm 'md5'; known are scrypt, sha1, sha256, sha512"),
        ({"algorithm": "sha256"}, "has a hash of 64 bytes; sha256 has 32"),
        ({"password_hash": "%"}, "has a password_hash that is not base64"),
        ({"salt": 7}, 'has no "salt"'),
        ({"username": ""}, "has no name"),
        ({"username": "\ud800"}, 'has a lone surrogate in "username"'),
        ({"username": "eve\nroot"}, "the name 'eve\\nroot' contains non-printing characters"),
    ],
)
def test_a_wrong_user_of_a_karapace_file_is_refused(change: dict[str, object], reason: str) -> None:
    assert reason in refused(karapace(PRINTED, PRINTED | change)).reason


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"{}",
        b'{"users": {}}',
        b'{"users": [' + b"[" * 100_000,
        b'{"users": [' + b"9" * 5000 + b"]}",
        b'{"users": ["\xff"]}',
    ],
)
def test_hostile_json_is_refused(content: bytes) -> None:
    refused(content)


@given(st.binary(max_size=300) | st.text("aé:#=,\\u0\n\r \t$!{", max_size=60).map(str.encode))
def test_any_content_is_users_or_a_file_error(content: bytes) -> None:
    try:
        users = len(parse_users(content))
    except FileError:
        users = 0
    assert users <= content.count(b"\n") + content.count(b"\r") + 1
