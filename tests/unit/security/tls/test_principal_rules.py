"""Principals from the subjects of certificates, by Kafka's rules."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from registry.security.tls.server_tls import PrincipalRules, subject_name
from tests.support.certificates import Authority

DN = "CN=kafka1,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"
ADMIN = "CN=Admin1,OU=Admin,O=Unknown"


# The first cases are those of Kafka's documentation of ssl.principal.mapping.rules.
@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DN, "kafka1"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", DN, "kafka1@serviceusers"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", ADMIN, "ADMIN1"),
        ("DEFAULT", DN, DN),
        ("RULE:^CN=nobody$/x/, DEFAULT", DN, DN),
        ("RULE:^CN=nobody$/x/", DN, ""),
        # The whole name has to match.
        ("RULE:CN=kafka1/x/,DEFAULT", DN, DN),
        # Groups that do not exist are no references.
        (r"RULE:^CN=(\w+),.*$/$1 at $4/", ADMIN, "Admin1 at $4"),
        # A slash and a backslash are part of a pattern after a backslash.
        (r"RULE:^CN=a\/(.*)$/$1/", "CN=a/b", "b"),
        (r"RULE:^CN=(.*)$/svc\/$1/L", "CN=B", "svc/b"),
        (" RULE:^CN=([^,]*),.*$/$1/L , DEFAULT ", ADMIN, "admin1"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_names_the_principal(
    rules: str, subject: str, name: str
) -> None:
    assert PrincipalRules(rules).principal(subject) == name


@pytest.mark.parametrize(
    "rules",
    [
        "",
        " , ",
        "default",
        "RULE:abc",
        "RULE:a/b",
        "RULE:a/b/X",
        "DEFAULT DEFAULT",
        "RULE:(/b/",
        "RULE:a(?=b)/b/",  # lookahead takes unbounded time, and RE2 has none
        "RULE:(a)\\1/b/",
    ],
)
def test_other_rules_are_refused(rules: str) -> None:
    with pytest.raises(ValueError):
        PrincipalRules(rules)


def test_a_pattern_that_would_take_other_engines_for_ever_is_answered() -> None:
    rules = PrincipalRules("RULE:^CN=(a+)+$/$1/,RULE:^CN=(.*a){20}$/$1/,DEFAULT")
    subject = f"CN={'a' * 50_000}b"
    assert rules.principal(subject) == subject


def named(*parts: x509.RelativeDistinguishedName) -> str:
    issued = Authority().issue("CN=x")
    name = x509.Name(parts)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.public_key(issued.key.public_key())
    builder = builder.not_valid_before(issued.certificate.not_valid_before_utc)
    builder = builder.not_valid_after(issued.certificate.not_valid_after_utc)
    certificate = builder.sign(issued.key, issued.certificate.signature_hash_algorithm)
    return subject_name(certificate)


def part(*attributes: x509.NameAttribute[str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName(attributes)


def test_subjects_are_written_as_java_writes_them() -> None:
    def attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
        return x509.NameAttribute(oid, value)

    assert (
        named(
            part(attribute(NameOID.COUNTRY_NAME, "DE")),
            part(attribute(NameOID.ORGANIZATION_NAME, 'A, "B" + C')),
            part(attribute(NameOID.COMMON_NAME, "alice")),
        )
        == r"CN=alice,O=A\, \"B\" \+ C,C=DE"
    )
    assert named(part(attribute(NameOID.COMMON_NAME, "#a "))) == r"CN=\#a\ "
    assert named(part(attribute(NameOID.COMMON_NAME, "é"))) == "CN=é"
    # Java: new X500Principal("EMAILADDRESS=a@b.c, CN=a").getName()
    assert (
        named(part(attribute(NameOID.COMMON_NAME, "a")), part(attribute(NameOID.EMAIL_ADDRESS, "a@b.c")))
        == "1.2.840.113549.1.9.1=#16056140622e63,CN=a"
    )
    long = "x" * 64
    assert named(part(attribute(NameOID.SERIAL_NUMBER, long))) == "2.5.4.5=#1340" + long.encode().hex()
    both = part(attribute(NameOID.USER_ID, "u"), attribute(NameOID.COMMON_NAME, "c"))
    assert set(named(both).split("+")) == {"UID=u", "CN=c"}
