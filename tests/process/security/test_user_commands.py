"""Commands that edit the file of users."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from registry.security.authentication.users import parse_users
from tests.support.running import ROOT

PASSWORD = "correct horse battery"
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"


def user(file: Path, *arguments: str, stdin: bytes = PASSWORD.encode()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "registry", "user", *arguments, "--users", str(file)]
    found = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False, timeout=60)
    return subprocess.CompletedProcess(
        command, found.returncode, found.stdout.decode(), found.stderr.decode()
    )


def knows(file: Path, name: str, password: str) -> bool:
    found = parse_users(file.read_bytes()).get(name.encode())
    return found is not None and found.password.matches(password.encode())


def test_users_are_added_changed_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    assert user(file, "add", "alice", "--groups", "team-a, team-b").returncode == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert knows(file, "alice", PASSWORD)
    assert user(file, "add", "bob").returncode == 0
    assert user(file, "list").stdout == "alice\tteam-a,team-b\nbob\n"
    assert user(file, "passwd", "alice", stdin=b"another password\r\n").returncode == 0
    assert knows(file, "alice", "another password")
    assert user(file, "remove", "bob").returncode == 0
    assert user(file, "list").stdout == "alice\tteam-a,team-b\n"
    assert user(file, "remove", "alice").returncode == 0
    assert file.read_bytes() == b""
    assert [each.name for each in tmp_path.iterdir()] == ["users"]


def test_other_lines_and_links_stay(tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "users"
    file.symlink_to(target)
    target.write_text(f"# people\n\nalice:{SECRET}:a,b\n# the end\nbob:{SECRET}\n")
    assert user(file, "passwd", "alice").returncode == 0
    assert user(file, "remove", "bob").returncode == 0
    first, second, alice, last = target.read_text().splitlines()
    assert (first, second, last) == ("# people", "", "# the end")
    assert alice.startswith("alice:$argon2id$")
    assert alice.endswith(":a,b")
    assert knows(target, "alice", PASSWORD)
    assert file.is_symlink()


@pytest.mark.parametrize(
    ("arguments", "stdin", "reason"),
    [
        (["add", "alice"], b"", "the user 'alice' exists"),
        (["passwd", "nobody"], b"", "there is no user 'nobody'"),
        (["remove", "nobody"], b"", "there is no user 'nobody'"),
        (["add", "a:b"], b"", "a name has no colon"),
        (["add", "carol", "--groups", "a:b"], b"", "a group has no colon"),
        (["add", "carol"], b"", "the password is too weak"),
        (["add", "carol"], b"short", "the password is too weak"),
        (["add", "carol"], b"aaaaaaaaaaaaaaaaaa", "the password is too weak"),
        (["add", "carol"], b"I am Carol 123", "it contains the user's name"),
        (["add", "carol"], b"\xff" * 20, "is not UTF-8"),
        (["add", "carol"], b"abcdefghij" * 200, "at most 1024 bytes"),
    ],
)
def test_a_refused_command_changes_nothing(
    tmp_path: Path, arguments: list[str], stdin: bytes, reason: str
) -> None:
    file = tmp_path / "users"
    file.write_text(f"alice:{SECRET}\n")
    done = user(file, *arguments, stdin=stdin)
    assert done.returncode == 1
    assert reason in done.stderr
    assert file.read_text() == f"alice:{SECRET}\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"alice:{SECRET}\nnonsense\n", "line 2: expected NAME:HASH"),
        ("alice: secret\n", "is a file of Confluent or Karapace"),
        ('{"users": []}', "is a file of Confluent or Karapace"),
    ],
)
def test_a_file_that_is_not_understood_is_not_edited(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "users"
    file.write_text(content)
    done = user(file, "add", "bob")
    assert done.returncode == 1
    assert reason in done.stderr
    assert file.read_text() == content


def test_a_password_typed_at_a_terminal_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "users"
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        os.execv(
            sys.executable,
            [sys.executable, "-m", "registry", "user", "add", "alice", "--users", str(file)],
        )
    shown = b""
    for prompt in (b"Password: ", b"Again: "):
        while not shown.endswith(prompt):
            shown += os.read(terminal, 1000)
        os.write(terminal, PASSWORD.encode() + b"\n")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert PASSWORD.encode() not in shown
    assert knows(file, "alice", PASSWORD)
