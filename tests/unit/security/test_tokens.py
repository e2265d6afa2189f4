"""Bearer tokens: only what the issuer has signed for this registry is believed, and only in time."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.principal import Principal
from registry.security.authentication.signing_keys import SigningKeys, parse_keys
from registry.security.authentication.tokens import Claims, TokenError, TokenVerifier, UnknownKey
from registry.security.watched_file import FileError
from tests.support.token_issuer import AUDIENCE, IssuerKey, claims, signed

ISSUER = "https://issuer.example"
KEY = IssuerKey("first")
RSA = IssuerKey("rsa", "RS256")
CLAIMS = Claims(ISSUER, (AUDIENCE, "another"), clock_skew_s=30.0)


class Keys:
    def __init__(self, *entries: dict[str, Any]) -> None:
        self.value: SigningKeys = parse_keys(json.dumps({"keys": entries}).encode())


def verifier(*keys: IssuerKey, wanted: Claims = CLAIMS) -> TokenVerifier:
    return TokenVerifier(Keys(*(key.public() for key in keys or (KEY, RSA))), wanted)


def refused(token: str | bytes, verified_by: TokenVerifier | None = None) -> str:
    with pytest.raises(TokenError) as caught:
        (verified_by or verifier()).verify(token.encode() if isinstance(token, str) else token)
    return str(caught.value)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "algorithm",
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"],
)
def test_a_valid_token_names_its_principal(algorithm: str) -> None:
    key = IssuerKey("k", algorithm)
    said = claims(ISSUER, exp=int(time.time()) + 100)
    found = verifier(key).verify(signed(key, said).encode())
    assert found.principal == Principal("alice")
    assert found.expires == said["exp"] + CLAIMS.clock_skew_s


def test_a_key_without_an_algorithm_serves_those_of_its_type() -> None:
    """As in the key sets of Microsoft Entra."""
    keys = Keys(RSA.public(alg=None))
    for algorithm in ("RS256", "PS512"):
        token = jwt.encode(claims(ISSUER), RSA.private, algorithm, {"kid": "rsa"})
        assert TokenVerifier(keys, CLAIMS).verify(token.encode()).principal.name == "alice"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": int(time.time()) - 31}, "the token has expired"),
        ({"exp": None}, "the token lacks a required claim"),
        ({"exp": "never"}, "the token is not valid"),
        ({"exp": 1e400}, "the token is not valid"),
        ({"nbf": int(time.time()) + 10_000}, "the token is not valid yet"),
        ({"aud": "elsewhere"}, "the token is for another audience"),
        ({"aud": None}, "the token lacks a required claim"),
        ({"aud": []}, "the token lacks a required claim"),
        ({"aud": {"registry": 1}}, "the token is for another audience"),
        ({"iss": "https://issuer.example.evil"}, "the token is from another issuer"),
        ({"iss": None}, "the token lacks a required claim"),
        ({"sub": None}, "the token does not name its principal or groups as configured"),
        ({"sub": ""}, "the token does not name its principal or groups as configured"),
        ({"sub": "a\nb"}, "the token does not name its principal or groups as configured"),
        ({"sub": "a" * 256}, "the token does not name its principal or groups as configured"),
        ({"sub": ["alice"]}, "the token is not valid"),
    ],
)
def test_a_token_with_wrong_claims_is_refused(changed: dict[str, Any], reason: str) -> None:
    assert refused(signed(KEY, claims(ISSUER, **changed))) == reason


def test_clocks_may_differ_by_the_skew() -> None:
    now = int(time.time())
    for changed in ({"exp": now - 20}, {"nbf": now + 20, "iat": now + 20}, {"aud": ["x", "another"]}):
        token = signed(KEY, claims(ISSUER, **changed))
        assert verifier().verify(token.encode()).principal == Principal("alice")


def test_a_token_without_a_signature_is_refused() -> None:
    for algorithm in ("none", "None", "NONE", "", None, 7, ["none"]):
        token = f"{part({'alg': algorithm, 'kid': 'first'})}.{part(claims(ISSUER))}."
        assert refused(token) in ("the token's algorithm is not allowed", "the token is not valid")
    header, payload, _ = signed(KEY, claims(ISSUER)).split(".")
    assert refused(f"{header}.{payload}.") == "the token is not valid"


def test_a_public_key_is_no_secret_of_a_symmetric_algorithm() -> None:
    """Otherwise everyone who can read the issuer's keys could sign."""
    pem = RSA.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, base64.urlsafe_b64decode(RSA.public()["n"] + "==")):
        signer = jwt.get_algorithm_by_name("HS256")
        body = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(claims(ISSUER))}"
        signature = base64.urlsafe_b64encode(signer.sign(body.encode(), secret)).rstrip(b"=").decode()
        assert refused(f"{body}.{signature}") == "the token's algorithm is not allowed"


def test_a_token_signed_by_another_key_is_refused() -> None:
    impostor = IssuerKey("first")
    assert refused(signed(impostor, claims(ISSUER))) == "the token is not valid"
    header, _, signature = signed(KEY, claims(ISSUER)).split(".")
    assert refused(f"{header}.{part(claims(ISSUER, sub='root'))}.{signature}") == "the token is not valid"


def test_an_algorithm_has_to_fit_the_key() -> None:
    token = signed(RSA, claims(ISSUER), kid="first")
    assert refused(token) == "the token's algorithm does not fit its key"
    other = jwt.encode(claims(ISSUER), RSA.private, "RS384", {"kid": "rsa"})
    assert refused(other) == "the token's algorithm does not fit its key"


def test_a_key_in_the_token_is_not_used() -> None:
    impostor = IssuerKey("impostor")
    headers = {"jwk": impostor.public(), "jku": "http://127.0.0.1:1/keys", "x5u": "file:///etc/passwd"}
    with pytest.raises(UnknownKey):
        verifier().verify(signed(impostor, claims(ISSUER), **headers).encode())
    assert refused(signed(impostor, claims(ISSUER), kid="first", **headers)) == "the token is not valid"


def test_a_token_without_a_key_id_is_verified_only_by_the_only_key() -> None:
    nameless = IssuerKey(None)
    token = signed(nameless, claims(ISSUER)).encode()
    assert verifier(nameless).verify(token).principal == Principal("alice")
    with pytest.raises(UnknownKey):
        verifier(KEY, RSA).verify(token)


def test_an_extension_that_has_to_be_understood_is_refused() -> None:
    assert refused(signed(KEY, claims(ISSUER), crit=["exp"], exp=1)) == "the token is not valid"


@pytest.mark.parametrize(
    ("name", "said", "groups"),
    [
        ("groups", {"groups": ["a", "b"]}, {"a", "b"}),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, {"a"}),
        ("https://example.org/groups", {"https://example.org/groups": ["a"]}, {"a"}),
        ("scope", {"scope": "read write"}, {"read", "write"}),
        ("groups", {}, set()),
        ("realm_access.roles", {"realm_access": ["roles"]}, set()),
    ],
)
def test_groups_come_from_a_claim_or_a_path(name: str, said: dict[str, Any], groups: set[str]) -> None:
    found = verifier(wanted=CLAIMS._replace(groups=name)).verify(signed(KEY, claims(ISSUER, **said)).encode())
    assert found.principal.groups == groups


@pytest.mark.parametrize("groups", [[1], {"a": "b"}, 7, ["x"] * 1001, [""]])
def test_groups_of_another_form_are_refused(groups: object) -> None:
    token = signed(KEY, claims(ISSUER, groups=groups))
    assert "groups" in refused(token, verifier(wanted=CLAIMS._replace(groups="groups")))


def test_the_principal_comes_from_the_configured_claim() -> None:
    token = signed(KEY, claims(ISSUER, preferred_username="bob", sub=None)).encode()
    found = verifier(wanted=CLAIMS._replace(principal="preferred_username")).verify(token)
    assert found.principal == Principal("bob")


@pytest.mark.parametrize(
    "token",
    [
        b"", b".", b"..", b"...", b"a.b.c", b"\xff\xfe.\x00.\x80", b"x" * 20_000,
        base64.urlsafe_b64encode(b"[" * 9_000) + b".e30.x",
        base64.urlsafe_b64encode(b'{"alg":"ES256","kid":' + b"9" * 5000 + b"}") + b".e30.x",
        base64.urlsafe_b64encode(b'{"alg":"ES256","kid":{"a":[]}}') + b".e30.x",
    ],
    ids=range(10),
)  # fmt: skip
def test_a_hostile_token_is_refused(token: bytes) -> None:
    refused(token)


@given(st.binary(max_size=200), st.data())
def test_any_bytes_are_refused(noise: bytes, data: st.DataObject) -> None:
    refused(noise)
    token = signed(KEY, claims(ISSUER)).encode()
    at = data.draw(st.integers(0, len(token) - 1))
    changed = token[:at] + bytes([data.draw(st.integers(0, 255))]) + token[at + 1 :]
    # The last character of a signature has bits that do not count.
    if changed != token and at != len(token) - 1:
        refused(changed)


# --- sets of keys


def test_keys_of_other_kinds_are_skipped() -> None:
    keys = Keys(
        {"kty": "oct", "kid": "secret", "k": "AAAA", "alg": "HS256"},
        RSA.public(use="enc", kid="encrypts"),
        RSA.public(alg="RSA-OAEP", kid="wraps"),
        RSA.public(key_ops=["sign"], kid="signs"),
        RSA.public(n="%", kid="broken"),
        RSA.public(n=7, kid="number"),
        IssuerKey("short", "RS256", rsa_bits=1024).public(),
        KEY.public(kid=7),
        KEY.public(),
    )
    skipped = ("secret", "encrypts", "wraps", "signs", "broken", "number", "short")
    assert [key_id for key_id in (*skipped, "first") if keys.value.find(key_id)] == ["first"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"\xff", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [7]}', b"[" * 100_000,
        b'{"keys": [' + b",".join([b"{}"] * 201) + b"]}", b"9" * 5000,
    ],
    ids=range(10),
)  # fmt: skip
def test_a_hostile_set_of_keys_is_refused(content: bytes) -> None:
    with pytest.raises(FileError):
        parse_keys(content)
