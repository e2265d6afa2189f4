"""The commands that examine rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.__main__ import main

RULES = """
[[allow]]
group = "team"
role = "reader"
subjects = "orders-*"
"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["alice", "read", "orders-value", "--groups", "other,team"], 0, "[[allow]] number 1, line 2"),
        (["alice", "read", "orders-value"], 1, "no rule names this principal"),
        (
            ["alice", "write", "orders-value", "--groups", "team"],
            1,
            "no rule for this principal allows 'write'",
        ),
        (["alice", "read", "payments", "--groups", "team"], 1, "are for other subjects"),
        (["alice", "read", ":.c:orders-value", "--groups", "team"], 1, "are for other subjects"),
    ],
)
def test_an_operation_is_explained_by_the_rule_that_decides(
    rules: str, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["acl", "explain", *arguments, "--rules", rules]) == code
    assert said in capsys.readouterr().out


def test_a_broken_file_of_rules_is_named_with_its_line(
    rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["acl", "check", "--rules", rules]) == 0
    assert "rules: 1" in capsys.readouterr().out
    Path(rules).write_text(RULES.replace("reader", "raeder"))
    assert main(["acl", "check", "--rules", rules]) == 2
    assert f"{rules}, line 2: [[allow]] number 1: 'role': 'raeder'" in capsys.readouterr().err
    assert main(["acl", "explain", "alice", "read", "x", "--rules", rules]) == 2
    assert main(["acl", "check"]) == 2


def test_an_unknown_operation_is_refused(rules: str) -> None:
    assert main(["acl", "explain", "alice", "reed", "x", "--rules", rules]) == 2


KINDS = """
[[allow]]
principal = ["user:alice", "bob"]
role = "reader"
subjects = "*"
"""


@pytest.mark.parametrize(
    ("user", "code", "said"),
    [
        ("bob", 0, ["allowed by [[allow]] number 1"]),
        ("user:alice", 0, ["allowed by [[allow]] number 1"]),
        ("token:alice", 1, ["denied: no rule names this principal"]),
        ("alice", 1, ["user:alice: allowed by", "token:alice: denied", "cert:alice: denied"]),
    ],
)
def test_an_explanation_is_of_one_kind_of_principals_or_says_how_kinds_differ(
    rules: str, user: str, code: int, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(rules).write_text(KINDS)
    assert main(["acl", "explain", user, "read", "x", "--rules", rules]) == code
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith(begin) for line, begin in zip(lines, said, strict=True)] == [True] * len(said)


def test_names_without_a_kind_are_warned_of_if_several_kinds_can_have_them(
    rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(rules).write_text(KINDS)
    users, keys, config = tmp_path / "users", tmp_path / "keys.json", tmp_path / "registry.toml"
    users.write_text("")
    keys.write_text('{"keys": []}')
    config.write_text(f'rules = "{rules}"\nusers = "{users}"\n')
    assert main(["acl", "check", "--config", str(config)]) == 0
    assert capsys.readouterr().err == ""
    tokens = f'jwt_jwks = "{keys}"\njwt_issuer = "https://issuer.example"\njwt_audience = "registry"\n'
    config.write_text(config.read_text() + tokens)
    assert main(["acl", "check", "--config", str(config)]) == 0
    assert "several principals: 'bob'\n" in capsys.readouterr().err
