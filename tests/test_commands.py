"""The two commands: their messages if something is missing, and the arguments that they pass on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.browsing import BROWSERS
from tests.support.running import ROOT

JAVA = "echo openjdk 17.0.2 2022-01-18"
NEEDED_BY_MAKE = ("sh", "env", "echo", "touch", "rm")


def make(path: Path, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run make with only ``path`` to find programs in."""
    command = [shutil.which("make") or "make", "--no-print-directory", *arguments]
    environment = {"PATH": str(path), "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a folder with the few programs without which not even make works."""
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
    """Return the files that say what to install, and no virtual environment."""
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


def test_help_lists_the_targets(path: Path) -> None:
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


def test_what_the_tests_need_is_reported_one_by_one(path: Path) -> None:
    works = "exit 0"
    for name, script in (
        ("java", JAVA),
        ("node", works),
        ("npm", works),
        ("curl", works),
        ("chromium", works),
        ("promtool", works),
        ("git", works),
        ("openssl", works),
    ):
        done = make(path, "test")
        assert done.returncode != 0
        assert re.match(rf"make test (and make cluster )?needs? {name}", done.stdout.lower())
        program(path, name, script)
    assert make(path, "tools").returncode == 0


def test_the_checks_hold_where_the_tests_run(path: Path) -> None:
    for name in ("java", "curl", "node", "npm", "promtool", "git", "openssl"):
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    (path / Path(browser).name).symlink_to(browser)
    done = make(path, "tools")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", ["exit 1", "echo java 11.0.1 2018-10-16", "echo java 21-odd 2023"])
def test_an_old_java_is_reported(path: Path, script: str) -> None:
    program(path, "java", script)
    done = make(path, "cluster")
    assert done.returncode != 0
    assert done.stdout.startswith("make test and make cluster need Java 17 or newer: install")


def test_a_cluster_is_what_was_asked_for(path: Path) -> None:
    program(path, "java", JAVA)
    arguments = ("NODES=5", "ELECTION=zookeeper", "PORT=80", "DATA=/a b", "ARGS=--readers 0")
    printed = make(path, "-n", "cluster", *arguments).stdout
    wanted = (
        '-m deploy.local.cluster --nodes "5" --election "zookeeper" --port "80" --data "/a b" -- --readers 0'
    )
    assert wanted in " ".join(printed.replace("\\\n", " ").split())


def test_a_cluster_needs_nothing_of_the_tests(path: Path, clone: Path) -> None:
    program(path, "java", JAVA)
    printed = make(path, "-n", "cluster", folder=clone).stdout
    assert "-r requirements.txt" in printed
    assert "requirements-dev.txt" not in printed


def test_what_runs_a_cluster_imports_only_what_a_node_needs() -> None:
    """The nodes and the console run in an environment without the requirements of the tests."""
    code = (
        "import sys\nimport deploy.local.cluster\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) - {"__main__"} == {"deploy", "snapshots"}


def test_an_old_node_is_reported(path: Path) -> None:
    program(path, "java", JAVA)
    program(path, "curl", "exit 0")
    program(path, "node", "exit 1")
    assert make(path, "test").stdout.startswith("make test needs Node 18 or newer")
