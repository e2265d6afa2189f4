"""The two commands: what they say when something is missing, and what they pass on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.running import ROOT

NEEDED_BY_MAKE = ("sh", "env", "echo", "touch", "rm")


def make(path: Path, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run make with nothing but ``path`` to find programs in."""
    command = [shutil.which("make") or "make", "--no-print-directory", *arguments]
    environment = {"PATH": str(path), "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder with the few programs without which not even make works."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED_BY_MAKE:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def program(path: Path, name: str, script: str) -> None:
    file = path / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that say what to install, and no virtual environment."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_serve_passes_address_and_folder_on(path: Path) -> None:
    printed = make(path, "-n", "serve", "LISTEN=0.0.0.0:80", "DATA=/a b", "ARGS=--readers 0").stdout
    assert '.venv/bin/registrar serve --listen "0.0.0.0:80" --data "/a b" --readers 0' in " ".join(
        printed.split()
    )


def test_help_tells_the_targets(path: Path) -> None:
    printed = make(path, "help").stdout
    assert "make serve" in printed
    assert "make test" in printed


def test_without_python_one_line_says_what_is_needed(path: Path, clone: Path) -> None:
    done = make(path, "serve", folder=clone)
    assert done.returncode != 0
    assert done.stdout.strip().startswith("Python 3.11 or newer is needed")


def test_an_older_python_is_passed_over(path: Path, clone: Path) -> None:
    program(path, "python3.11", "exit 1")
    program(path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    done = make(path, "serve", folder=clone)
    assert done.returncode != 0
    assert done.stdout.strip() == (
        "python3 makes no virtual environments: install the package python3-venv"
        " (apt-get install python3-venv)"
    )


def test_what_the_tests_need_is_told_one_by_one(path: Path) -> None:
    for name, works in (("curl", "exit 0"), ("node", "exit 0"), ("npm", "exit 0")):
        done = make(path, "test")
        assert done.returncode != 0
        assert done.stdout.lower().startswith(f"make test needs {name}")
        program(path, name, works)
    assert make(path, "tools").returncode == 0


def test_the_checks_hold_where_the_tests_run(path: Path) -> None:
    for name in ("curl", "node", "npm"):
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    done = make(path, "tools")
    assert done.returncode == 0, done.stdout


def test_an_old_node_is_told(path: Path) -> None:
    program(path, "curl", "exit 0")
    program(path, "node", "exit 1")
    assert make(path, "test").stdout.startswith("make test needs Node 18 or newer")
