"""Rules: what their file may say, and what they allow."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.model import TOP, Subject
from registry.domain.principal import ANONYMOUS, Principal
from registry.domain.subject_patterns import SubjectRange, parse_pattern, union
from registry.security.authorization import rules_file
from registry.security.authorization.rules import PATTERNS_MAX, ROLES, Rules, explain
from registry.security.authorization.rules_file import parse
from registry.security.gate import Permission
from registry.security.watched_file import FileError

READ, WRITE = Permission.READ, Permission.WRITE
ALICE, BOB = Principal("alice"), Principal("bob", frozenset({"ops"}))

FILE = """\
[[allow]]
principal = "alice"
role = "developer"
subjects = ["orders-value", "payments-*", ":.ctx:*"]

# a comment
[[allow]]
group = ["ops", "support"]
operations = ["read", "config"]
subjects = "*"
"""


def rules(text: str) -> Rules:
    return parse(text.encode())


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        ("orders-value", True), ("orders-value2", False), ("orders", False),
        ("payments-", True), ("payments-x", True), ("payments", False),
        (":.ctx:payments-x", True), (":.ctx:", True), (":.ctx2:payments-x", False),
        (":.:payments-x", True), ("", False),
    ],
)  # fmt: skip
def test_a_rule_covers_names_prefixes_and_contexts(subject: str, allowed: bool) -> None:
    access = rules(FILE).access(ALICE)
    assert access.may(WRITE, Subject.parse(subject)) is allowed
    assert not access.may(Permission.DELETE, Subject.parse(subject))


def test_a_star_covers_all_contexts_and_the_top_level() -> None:
    access = rules(FILE).access(BOB)
    assert access.everywhere(READ)
    assert access.may(Permission.CONFIG, TOP)
    assert access.may(READ, Subject.parse(":.any:x"))
    assert not access.everywhere(WRITE)


def test_a_context_without_a_star_stands_for_the_context_alone() -> None:
    access = rules('[[allow]]\nprincipal="alice"\noperations="config"\nsubjects=":.ctx:"').access(ALICE)
    assert access.may(Permission.CONFIG, Subject(".ctx", ""))
    assert not access.may(Permission.CONFIG, Subject(".ctx", "s"))


def test_what_no_rule_allows_is_denied() -> None:
    for principal in (Principal("carol"), ANONYMOUS):
        access = rules(FILE).access(principal)
        assert not any(access.may(each, Subject.parse("orders-value")) for each in Permission)
        assert access.ranges(READ) == ()
    assert not rules("").access(ALICE).may(READ, Subject.parse("x"))


def test_everyone_is_every_principal_with_a_name() -> None:
    found = rules('[[allow]]\nprincipal="*"\nrole="reader"\nsubjects="*"')
    assert found.access(Principal("carol")).everywhere(READ)
    assert not found.access(ANONYMOUS).everywhere(READ)


@pytest.mark.parametrize(
    ("named", "who", "kind", "allowed"),
    [
        ("alice", "alice", "user", True),
        ("alice", "alice", "token", True),
        ("alice", "alice", "", True),
        ("user:alice", "alice", "user", True),
        ("user:alice", "alice", "token", False),
        ("user:alice", "alice", "cert", False),
        ("user:alice", "alice", "", False),
        ("cert:CN=alice", "CN=alice", "cert", True),
        ("token:*", "anyone", "token", True),
        ("token:*", "anyone", "user", False),
        # A name that looks like one with a kind does not stand for it.
        ("user:alice", "user:alice", "token", False),
        ("user:alice", "user:alice", "", False),
        ("token:user:alice", "user:alice", "token", True),
        ("token:user:alice", "user:alice", "cert", False),
        # Other words before a colon are part of the name.
        ("system:serviceaccount:a:b", "system:serviceaccount:a:b", "token", True),
    ],
)
def test_a_rule_can_name_the_kind_of_a_principal_or_group(
    named: str, who: str, kind: str, allowed: bool
) -> None:
    for key in ("principal", "group") if "*" not in named else ("principal",):
        found = rules(f'[[allow]]\n{key}="{named}"\nrole="reader"\nsubjects="*"')
        principal = Principal(who) if key == "principal" else Principal("x", frozenset({who}))
        assert found.access(principal, kind).everywhere(READ) is allowed
        assert explain(found, principal, READ, TOP, kind).allowed is allowed


def test_the_access_of_a_principal_is_computed_once() -> None:
    found = rules(FILE)
    assert found.access(ALICE) is found.access(Principal("alice"))
    assert found.access(ALICE) is not found.access(Principal("alice", frozenset({"ops"})))
    assert found.access(ALICE, "user") is not found.access(ALICE, "token")


ALLOW = '[[allow]]\nprincipal="a"\n'


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x = [", 0, "is not TOML"),
        ("\n\n[[allow]\n", 3, "is not TOML"),
        ("[allow]\n", 0, "double brackets"),
        ("deny = []\n", 0, "unknown key 'deny'"),
        (
            FILE + ALLOW + 'role="reader"\nsubject="x"',
            11,
            "number 3: unknown key 'subject'; allowed: principal",
        ),
        ('[[allow]]\nrole="reader"\nsubjects="x"', 1, "number 1: needs 'principal' or 'group'"),
        ('[[allow]]\ngroup="*"\nrole="reader"\nsubjects="x"', 1, 'principal = "*"'),
        ('[[allow]]\ngroup="token:*"\nrole="reader"\nsubjects="x"', 1, 'principal = "*"'),
        ('[[allow]]\nprincipal="cert:"\nrole="reader"\nsubjects="x"', 1, "'cert:' needs a name after cert:"),
        (ALLOW + 'subjects="x"', 1, "needs either 'role' or 'operations'"),
        (ALLOW + 'role="reader"\noperations="read"\nsubjects="x"', 1, "needs either"),
        (
            ALLOW + 'role="reeder"\nsubjects="x"',
            1,
            "'reeder' is not one of reader, developer, ",
        ),
        (ALLOW + 'operations=["read","reed"]\nsubjects="x"', 1, "'reed' is not one of read, write, delete"),
        (ALLOW + 'role="reader"', 1, "needs 'subjects'"),
        (ALLOW + 'role="reader"\nsubjects=[]', 1, "'subjects' must not be empty"),
        (ALLOW + 'role="reader"\nsubjects=[""]', 1, "'subjects' must be a non-empty string"),
        (ALLOW + 'role="reader"\nsubjects=[1]', 1, "'subjects' must be a non-empty string"),
        (ALLOW + 'role="reader"\nsubjects="a*b"', 1, "'a*b' is not a subject"),
        (ALLOW + 'role="reader"\nsubjects="**"', 1, "* is only allowed at the end"),
        (ALLOW + 'role="reader"\nsubjects=":*:x"', 1, "is not a subject"),
        (ALLOW + 'role="reader"\nsubjects=":.team-*"', 1, "must name its context in full"),
    ],
)
def test_a_broken_file_says_where_and_what_is_allowed(text: str, line: int, reason: str) -> None:
    with pytest.raises(FileError, match=re.escape(reason)) as raised:
        parse(text.encode())
    assert raised.value.line == line


def test_a_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileError, match="more than"):
        parse(b"[[allow]]\n" * (rules_file.RULES_MAX + 1))
    subjects = ",".join('"s"' for _ in range(PATTERNS_MAX + 1))
    with pytest.raises(FileError, match="more than"):
        parse(f'{ALLOW}role="reader"\nsubjects=[{subjects}]'.encode())
    with pytest.raises(FileError):
        parse(b"allow=" + b"[" * 100_000)
    with pytest.raises(FileError, match="UTF-8"):
        parse(b"\n\xff")


def test_roles_grow_from_reader_to_admin() -> None:
    roles = list(ROLES.values())
    assert all(one < other for one, other in pairwise(roles))
    assert ROLES["admin"] == frozenset(Permission)


@pytest.mark.parametrize(
    ("who", "operation", "subject", "allowed", "reason"),
    [
        (ALICE, "write", "payments-x", True, "[[allow]] number 1, line 1: subjects 'payments-*'"),
        (BOB, "read", "payments-x", True, "[[allow]] number 2, line 7: subjects '*'"),
        (ALICE, "delete", "payments-x", False, "allows 'delete' (its rules: 1)"),
        (ALICE, "read", "other", False, "(number 1) are for other subjects"),
        (Principal("carol"), "read", "other", False, "no rule names"),
    ],
)
def test_an_explanation_names_the_deciding_rule(
    who: Principal, operation: str, subject: str, allowed: bool, reason: str
) -> None:
    found = explain(rules(FILE), who, Permission(operation), Subject.parse(subject))
    assert found.allowed is allowed
    assert reason in found.reason


NAMES = st.text(alphabet="ab-\x00\x01é\U0001f600", max_size=4)
CONTEXTS = st.sampled_from([".", ".a", ".a-b", ".b"])
SUBJECTS = st.builds(Subject, CONTEXTS, NAMES)
PATTERNS = st.builds(
    lambda subject, star: subject.qualified + star, SUBJECTS, st.sampled_from(["", "*"])
).filter(bool)


@given(st.lists(PATTERNS, max_size=8), st.lists(SUBJECTS, max_size=20))
def test_ranges_and_decisions_agree(patterns: list[str], subjects: list[Subject]) -> None:
    parsed = [parse_pattern(each) for each in patterns]
    source = "[[allow]]\nprincipal='alice'\nrole='reader'\nsubjects=['x','x']"
    access = rules(source.replace("['x','x']", repr_toml(patterns or ["unused"]))).access(ALICE)
    ranges = union(parsed)
    if ranges is None:
        assert access.everywhere(READ)
        return
    assert list(ranges) == sorted(ranges)
    for one, other in pairwise(ranges):
        assert one.context != other.context or (one.end and one.end < other.first)
    for subject in subjects:
        name = subject.name.encode()
        inside = any(
            each.context == subject.context and each.first <= name and (not each.end or name < each.end)
            for each in ranges
        )
        assert inside is any(each.covers(subject) for each in parsed)
        assert inside is any(
            subject == Subject.parse(each) or (each.endswith("*") and starts(subject, each[:-1]))
            for each in patterns
        )
        if patterns:
            assert access.may(READ, subject) is inside


def starts(subject: Subject, prefix: str) -> bool:
    begin = Subject.parse(prefix)
    return subject.context == begin.context and subject.name.startswith(begin.name)


def repr_toml(texts: list[str]) -> str:
    escaped = ("".join(f"\\U{ord(char):08x}" for char in each) for each in texts)
    return "[" + ",".join(f'"{each}"' for each in escaped) + "]"


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("orders-*", "orders-\U0010ffff", "orders."),
        ("a*", "a", "b"),
        (":.c:a*", ":.c:a~", ":.c:b"),
        ("a", "a", "a\0"),
        (":.c:*", ":.c:\U0010ffff", ":.d:"),
    ],
)
def test_a_pattern_ends_before_the_first_name_after_it(pattern: str, inside: str, outside: str) -> None:
    access = rules(ALLOW + f'role="reader"\nsubjects="{pattern}"').access(Principal("a"))
    assert access.may(READ, Subject.parse(inside))
    assert not access.may(READ, Subject.parse(outside))


def test_overlapping_subjects_become_one_range() -> None:
    found = union(map(parse_pattern, ["ab*", "a*", "b", "abc", ":.c:*", ":.c:x"]))
    assert found == (
        SubjectRange(".", b"a", b"b\0"), SubjectRange(".c", b"", b""),
    )  # fmt: skip


def permissions(*entries: tuple[str, str, str]) -> bytes:
    names = ("username", "operation", "resource")
    listed = [dict(zip(names, each, strict=True)) for each in entries]
    return json.dumps({"users": [], "permissions": listed}).encode()


def test_karapaces_permissions_are_rules() -> None:
    found = parse(
        permissions(
            ("alice", "Read", "Subject:orders\\.v1$"),
            ("alice", "Write", "Subject:payments-.*"),
            ("alice", "Read", "^Subject:shop"),
            ("alice", "Read", "Config:"),
            ("root", "Write", ".*"),
        )
    )
    access = found.access(ALICE)
    assert access.may(READ, Subject.parse("orders.v1"))
    assert not access.may(READ, Subject.parse("orders.v12"))
    assert access.may(READ, Subject.parse("shop-x"))
    assert not access.may(WRITE, Subject.parse("shop-x"))
    assert access.may(WRITE, Subject.parse("payments-x"))
    assert access.may(Permission.DELETE, Subject.parse("payments-x"))
    assert access.may(Permission.ADMIN, TOP)
    assert not access.may(Permission.CONFIG, TOP)
    root = found.access(Principal("root"))
    assert root.everywhere(WRITE)
    assert root.may(Permission.CONFIG, TOP)
    assert not root.everywhere(Permission.ADMIN)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (("a", "Read", "Subject:(a|b)"), "must be plain text"),
        (("a", "Read", "Subject:com.acme"), "must be plain text"),
        (("a", "Read", "Topic:x"), "must begin with Subject:"),
        (("a", "Describe", "Subject:x"), "is not one of Read, Write"),
        (("", "Read", "Subject:x"), "needs the strings"),
    ],
)
def test_permissions_of_karapace_without_a_counterpart_are_refused(
    entry: tuple[str, str, str], reason: str
) -> None:
    with pytest.raises(FileError, match=f"permission number 2: .*{re.escape(reason)}"):
        parse(permissions(("ok", "Read", "Subject:x"), entry))
