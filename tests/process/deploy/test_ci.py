"""The GitHub Action, the jobs for GitLab and the hooks of pre-commit, as far as a shell runs them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.process.cli.folder.places import Place, running
from tests.process.cli.folder.test_verbs import ORDER, git, record, write
from tests.support.running import ROOT

BIN = Path(sys.executable).parent
MANIFEST = 'subjects = ["*"]\n'
ACTION = ROOT / "deploy" / "ci" / "github" / "action.yml"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running(tmp_path_factory.mktemp("ci") / "data") as place:
        yield place


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with two commits; the second one adds a schema that refers to the first one's."""
    git(tmp_path, "init", "-q", "-b", "main")
    for files in ({"manifest": MANIFEST, "money.avsc": record("Money", "cents")}, {"order.avsc": ORDER}):
        write(tmp_path / "schemas", **files)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", "change")
    return tmp_path


def shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as runners do: bash, ended by the first error."""
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8", **variables}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


class Action:
    """Runs the steps of the composite action, with the expressions that it uses."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.definition = yaml.safe_load(ACTION.read_text())
        self.folder, self.output = folder, ""
        self._inputs = {
            name: str(each["default"]) for name, each in self.definition["inputs"].items()
        } | inputs
        self._environment = folder / ".git" / "environment"
        self._environment.write_text("")

    def run(self, **variables: str) -> int:
        """Run the steps until one fails; return its status."""
        for step in self.definition["runs"]["steps"]:
            if not self._is_wanted(step.get("if", "")):
                continue
            exported = dict(line.split("=", 1) for line in self._environment.read_text().splitlines())
            given = {name: self._value(str(each)) for name, each in step.get("env", {}).items()}
            paths = {"GITHUB_ENV": str(self._environment), "RUNNER_TEMP": str(self.folder / ".git")}
            done = shell(step["run"], self.folder, **variables, **paths, **exported, **given)
            self.output += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
        return 0

    def _is_wanted(self, condition: str) -> bool:
        if not condition:
            return True
        name, equal, value = re.fullmatch(r"inputs\.(\w+) (==|!=) '(\w*)'", condition).groups()  # type: ignore[union-attr]
        return (self._inputs[name] == value) is (equal == "==")

    def _value(self, text: str) -> str:
        text = text.replace("${{ github.action_path }}", str(ACTION.parent))
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: self._inputs[found[1]], text)


def test_the_action_checks_a_pull_request_and_applies_a_push(place: Place, repository: Path) -> None:
    command = str(BIN / "registrar")
    assert Action(repository, command=command).run() == 0, "compared with the commit before"
    pushed = Action(repository, command=command, url=place.url, apply="true", prune="true")
    assert pushed.run() == 0, pushed.output
    assert place.places("money") + place.places("order") == [("money", 1), ("order", 1)]
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    write(repository / "schemas", **{"money.avsc": record("Money", "cents", "more")})
    for action in (Action(repository, command=command), Action(repository, command=command, url=place.url)):
        assert action.run(GITHUB_BASE_REF="main") == 1
        assert "::error file=schemas/money.avsc,title=money is refused::incompatible" in action.output
    (repository / "schemas" / "money.avsc").unlink()
    deleting = Action(repository, command=command, url=place.url, apply="true", prune="true")
    assert deleting.run() == 1
    assert len(place.places("money")) == 1


def test_no_value_becomes_a_part_of_a_script(repository: Path) -> None:
    action = Action(repository, command=str(BIN / "registrar"), path="$(touch hurt); `touch hurt`")
    assert all("${{" not in step["run"] for step in action.definition["runs"]["steps"])
    assert action.run() == 2
    assert not (repository / "hurt").exists()


def test_the_action_installs_the_repository_that_it_lies_in(repository: Path) -> None:
    """The command of pip only says what it would do: other tests build and install the package."""
    action = Action(repository)
    (install,) = [each for each in action.definition["runs"]["steps"] if each["name"] == "Install registrar"]
    source = Path(action._value(install["env"]["SOURCE"])).resolve()
    assert source == ROOT
    assert re.search(r"pip\" install .*\"\$SOURCE\"", install["run"])


def test_the_jobs_of_gitlab_check_apply_and_report_drift(place: Place, repository: Path) -> None:
    jobs: Mapping[str, Any] = yaml.safe_load((ROOT / "deploy" / "ci" / "gitlab.yml").read_text())

    def run(name: str, url: str = place.url, **variables: str) -> int:
        known = {each: str(value) for each, value in jobs["variables"].items()} | {"REGISTRAR_URL": url}
        return shell("\n".join(jobs[name]["script"]), repository, **known, **variables).returncode

    git(repository, "tag", "base", "HEAD~1")
    assert run("schemas check", "", CI_MERGE_REQUEST_DIFF_BASE_SHA="base") == 0
    assert run("schemas check") == 0
    assert run("schemas apply") == 0
    assert run("schemas drift") == 0
    place.register("by-hand", '"int"')
    assert run("schemas drift") == jobs["schemas drift"]["allow_failure"]["exit_codes"]
    write(repository / "schemas", **{"money.avsc": record("Money", "cents", "more")})
    assert run("schemas check") == run("schemas apply") == 1
    assert run("schemas check", "", CI_MERGE_REQUEST_DIFF_BASE_SHA="base") == 1
    unset = shell(jobs[".registrar"]["before_script"][0], repository)
    assert (unset.returncode, "REGISTRAR_PACKAGE: set this variable" in unset.stderr) == (1, True)


def test_the_hooks_of_pre_commit_refuse_a_commit(repository: Path) -> None:
    hooks = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}

    def run(name: str) -> int:
        words = [*shlex.split(hooks[name]["entry"]), *hooks[name]["args"]]
        return shell(shlex.join(words), repository).returncode

    assert [run(each) for each in hooks] == [0, 0]
    write(repository / "schemas", **{"money.avsc": record("Money", "cents", "more")})
    assert [run(each) for each in hooks] == [0, 1]
    write(repository / "schemas", **{"money.avsc": "{"})
    assert [run(each) for each in hooks] == [1, 1]
    for hook in hooks.values():
        paths = ("schemas/a.avsc", "b.proto", "registrar.toml", "c.py", "registrar_toml")
        assert [bool(re.search(hook["files"], each)) for each in paths] == [True, True, True, False, False]
