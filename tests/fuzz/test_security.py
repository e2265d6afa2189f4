"""Hostile credentials, headers, certificates and files: an intended error, or a result of the right kind."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import re
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from hypothesis import example, given, settings
from hypothesis import strategies as st

from registry.domain.policies import PolicyError
from registry.domain.policies import parse as parse_policies
from registry.domain.principal import Principal
from registry.security.authentication.gate import AuthenticationGate
from registry.security.authentication.signing_keys import parse_keys
from registry.security.authentication.tokens import Claims, TokenError, TokenVerifier
from registry.security.authentication.users import Users, parse_users
from registry.security.authorization.rules_file import parse as parse_rules
from registry.security.client_address import TrustedProxies
from registry.security.gate import FULL_ACCESS, Credentials, NotAdmitted
from registry.security.tls.server_tls import PrincipalRules, subject_name
from registry.security.watched_file import FileError
from tests.support.certificates import Authority, Issued
from tests.support.token_issuer import AUDIENCE, IssuerKey, claims, signed

CLIENT, PROXY, ISSUER = "203.0.113.9", "10.0.0.1", "https://issuer.example"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def pieces(*known: str) -> st.SearchStrategy[str]:
    """Return texts of these pieces in any order, with other characters between them."""
    return st.lists(st.sampled_from(known) | st.text(max_size=3), max_size=14).map("".join)


HOPS = pieces("127.0.0.1", PROXY, "::1", "[::1]:80", "fe80::1%eth0", ",", ":", "%", "]", '"', " ")


@given(st.lists(HOPS.map(lambda text: text.encode("latin-1", "ignore")), max_size=3))
@example([b'fe80::1%" 200 forged'])
def test_a_client_address_is_an_address_whatever_a_proxy_passes_on(values: list[bytes]) -> None:
    headers = [(b"x-forwarded-for", value) for value in values]
    found = TrustedProxies(["10.0.0.0/8", "127.0.0.0/8"]).client(PROXY, headers)
    assert ipaddress.ip_address(found)
    assert "%" not in found


@given(st.lists(HOPS.map(lambda text: text.encode("latin-1", "ignore")), max_size=3))
def test_no_header_hides_the_address_that_a_trusted_proxy_saw(values: list[bytes]) -> None:
    headers = [(b"x-forwarded-for", value) for value in (*values, CLIENT.encode())]
    assert TrustedProxies(["10.0.0.0/8"]).client(PROXY, headers) == CLIENT


class Current:
    """The value of a file that does not change."""

    def __init__(self, value: Any) -> None:
        self.value = value


@cache
def key() -> IssuerKey:
    return IssuerKey("first")


@cache
def verifier() -> TokenVerifier:
    keys = parse_keys(json.dumps({"keys": [key().public()]}).encode())
    return TokenVerifier(Current(keys), Claims(ISSUER, (AUDIENCE,), groups="groups.names"))


RIGHT = b"Basic " + base64.b64encode(b"alice:secret")
SCHEMES = st.sampled_from([b"Basic ", b"basic\t", b"BEARER ", b"Bearer  ", b"Negotiate ", b""])
HEADERS = st.builds(
    lambda scheme, value, encode: scheme + (base64.b64encode(value) if encode else value),
    *(SCHEMES, st.binary(max_size=60) | st.sampled_from([b"alice:", b":", b"alice:secret\0"]), st.booleans()),
)


@given(HEADERS.filter(lambda header: header != RIGHT))
def test_any_other_authorization_is_refused(header: bytes) -> None:
    async def admitted(authorization: bytes) -> Principal:
        users = Current(parse_users(b"alice: secret"))
        gate = AuthenticationGate(lambda principal, kind: FULL_ACCESS, users=users, tokens=verifier())
        with closing(gate):
            return (await gate.admit(Credentials(authorization, "", CLIENT))).principal

    with pytest.raises(NotAdmitted) as refused:
        asyncio.run(admitted(header))
    assert refused.value.status == 401
    assert asyncio.run(admitted(RIGHT)).name == "alice"


CLAIMS = st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "groups"])


@settings(max_examples=50)
@given(
    st.dictionaries(CLAIMS, VALUES, max_size=3),
    st.dictionaries(st.sampled_from(["typ", "crit", "b64", "x"]), VALUES),
)
@example({"exp": 10**400}, {})
@example({"groups": {"names": [["a"]]}}, {})
def test_signed_claims_of_any_form_name_a_principal_or_are_refused(
    changed: dict[str, Any], headers: dict[str, Any]
) -> None:
    try:
        token = signed(key(), claims(ISSUER) | changed, **headers).encode()
    except (TypeError, ValueError):
        return  # PyJWT does not write such a token.
    with suppress(TokenError):
        found = verifier().verify(token)
        assert found.principal.name.isprintable()
        assert found.expires > time.time()


FIELDS = st.sampled_from(["username", "algorithm", "salt", "password_hash", "operation", "resource"])
WORDS = st.sampled_from(["alice", "sha256", "scrypt", "c2FsdA==", "Read", "Write", "Subject:a.*", "Config:"])
ENTRIES = st.lists(st.dictionaries(FIELDS, VALUES | WORDS) | VALUES, max_size=3)
KARAPACE = st.fixed_dictionaries({}, optional={"users": ENTRIES | VALUES, "permissions": ENTRIES | VALUES})
TOML = pieces(
    *("[[allow]]\n", "[[policy]]\n", "[allow]\n", "principal", "group", "role", "operations", "subjects"),
    *(" = ", '"*"', '["a-*", ":.c:*"]', '"reader"', "{a = 1}", "\n", "prefix", "create", "lint", "'''"),
    *("2020-01-01", "9" * 5000, "[" * 3000, "\\", "\0", "\ufeff", "versions_max", "writes_per_minute"),
)
FILES = st.binary(max_size=60) | TOML.map(lambda text: text.encode(errors="replace"))
DOCUMENTS = KARAPACE.map(json.dumps).map(str.encode)


def answer(parse: Callable[[Any], Any], content: Any, errors: type[Exception]) -> Any:
    """Return what ``parse`` makes of the content; ``None`` after one of ``errors``."""
    with suppress(errors):
        return parse(content)
    return None


@given(FILES | DOCUMENTS)
@example(b"allow = " + b"9" * 5000)
@example(b"allow = " + b"[" * 5000)
@example(b'{"permissions": [{"username": "a", "operation": [], "resource": ".*"}]}')
def test_any_file_of_rules_is_rules_or_says_why_not(content: bytes) -> None:
    rules = answer(parse_rules, content, FileError)
    if rules is not None:
        assert rules.access(Principal("alice", frozenset({"a"})))


@given(DOCUMENTS)
def test_any_document_of_users_is_users_or_says_why_not(content: bytes) -> None:
    users = answer(parse_users, content, FileError)
    assert users is None or isinstance(users, Users)


@given(TOML)
@example("a = " + "9" * 5000)
def test_any_file_of_policies_is_policies_or_says_why_not(content: str) -> None:
    answer(parse_policies, content, PolicyError)


RULES = pieces(
    "RULE:", "DEFAULT", "/", "/L", "/U", ",", "^CN=", "(.*)", "(", "$1", "$9", "\\", "(?P<n>", "{99}", "$"
)


@given(RULES, st.text(max_size=30))
@example("RULE:\udcff/a/", "")
def test_any_principal_rules_name_somebody_or_say_why_not(rules: str, subject: str) -> None:
    found = answer(PrincipalRules, rules, ValueError)
    if found is not None:
        assert isinstance(found.principal(subject), str)


OIDS = [
    *(NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.LOCALITY_NAME, NameOID.USER_ID),
    x509.ObjectIdentifier("1.2.3.4.5.6"),
]
READABLE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@cache
def issued() -> Issued:
    return Authority().issue("CN=alice,OU=Services,O=Example")


@given(st.lists(st.tuples(st.sampled_from(OIDS), READABLE), max_size=4))
@example([(NameOID.COMMON_NAME, "mallory,CN=alice"), (NameOID.USER_ID, "\\,CN=alice\\")])
def test_no_value_of_a_subject_looks_like_another_part(
    parts: list[tuple[x509.ObjectIdentifier, str]],
) -> None:
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    unsigned = x509.CertificateBuilder(name, name, issued().key.public_key(), 1)
    unsigned = unsigned.not_valid_before(issued().certificate.not_valid_before_utc)
    unsigned = unsigned.not_valid_after(issued().certificate.not_valid_after_utc)
    certificate = unsigned.sign(issued().key, issued().certificate.signature_hash_algorithm)
    text = subject_name(certificate)
    assert len(re.findall(r"(?:\\.|[^\\,+])+", text, re.DOTALL)) == len(parts)


@given(st.integers(min_value=0), st.binary(min_size=1, max_size=4))
def test_a_damaged_certificate_is_refused_or_names_its_subject(place: int, noise: bytes) -> None:
    content = bytearray(issued().certificate.public_bytes(serialization.Encoding.DER))
    place %= len(content)
    content[place : place + len(noise)] = noise
    answer(lambda raw: subject_name(x509.load_der_x509_certificate(raw)), bytes(content), ValueError)
