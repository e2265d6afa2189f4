"""The workflows and forms of ``.github``: valid, with pinned actions, and made of targets of the Makefile."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.release.packages import git
from tests.__main__ import GROUPS
from tests.support.running import ROOT

GITHUB = ROOT / ".github"
FORMS = GITHUB / "ISSUE_TEMPLATE"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-issue-forms": [FORMS / "fault.yml", FORMS / "proposal.yml"],
    "vendor.github-issue-config": [FORMS / "config.yml"],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
}
COMMAND = re.compile(r"make (?:--jobs 3 )?([a-z-]+)((?: [A-Z_]+=(?:\$\{\{[^}]*\}\}|\S)*)*)")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def jobs(workflow: Path) -> dict[str, Any]:
    return yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job["steps"]]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_fits_its_schema(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*command, *SCHEMAS[schema]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("actionlint"), reason="make workflows runs actionlint, which needs Go")
def test_actionlint_finds_no_fault() -> None:
    done = subprocess.run(["actionlint"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_permissions_are_given_where_they_are_needed(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert not [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+(\.\d+)+", each)]
    assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    writing = {
        (name, permission)
        for name, job in jobs(workflow).items()
        for permission, value in job.get("permissions", {}).items()
        if value == "write"
    }
    assert bool(writing) == (workflow.stem in {"release", "site"})
    assert all(1 <= job["timeout-minutes"] <= 360 for job in jobs(workflow).values())
    # What a pull request brings never runs with a token that writes.
    assert "pull_request_target" not in workflow.read_text(encoding="utf-8")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_a_target_of_the_makefile(workflow: Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    for command in commands:
        found = COMMAND.fullmatch(command)
        assert found, command
        assert re.search(rf"^{found[1]}:", MAKEFILE, re.MULTILINE), command
        for variable in re.findall(r"([A-Z_]+)=", found[2]):
            assert f"$({variable})" in MAKEFILE, command
    # An expression in a script could be a command; matrices are ours.
    assert not [each for each in commands if re.search(r"\$\{\{(?! matrix\.)", each)]


def test_the_shards_are_the_groups_and_the_brokers_those_of_the_makefile() -> None:
    workflow = GITHUB / "workflows"
    assert jobs(workflow / "test.yml")["test"]["strategy"]["matrix"]["group"] == [*GROUPS]
    ages = re.search(r"^AGES +\?= (.*)$", MAKEFILE, re.MULTILINE)
    assert jobs(workflow / "weekly.yml")["brokers"]["strategy"]["matrix"]["kafka"] == ages[1].split()


def test_jobs_set_up_node_if_their_targets_install_with_npm() -> None:
    for workflow in WORKFLOWS:
        for name, job in jobs(workflow).items():
            text = str(job["steps"])
            needs = re.search(r"make (?:lint|(?:--jobs 3 )?prepared|coverage|release )", text)
            assert not needs or "actions/setup-node" in text, f"{workflow.stem}: {name}"


def test_dependabot_watches_every_folder_with_a_lock_file() -> None:
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    watched = {each["package-ecosystem"]: each.get("directories") for each in updates}
    for ecosystem, lock in (("npm", "package-lock.json"), ("gomod", "go.sum")):
        locks = git(ROOT, "ls-files", f"*/{lock}").split()
        assert sorted(watched[ecosystem]) == [f"/{Path(each).parent}" for each in locks]


def test_the_paths_with_owners_exist() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.lstrip("#").split()[0] for line in lines if re.match(r"#?/", line)]
    assert len(paths) > 5
    assert not [path for path in paths if not (ROOT / path.strip("/")).exists()]


def test_base_images_are_named_by_digest() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    foreign = {image for image, _ in stages} - {name for _, name in stages}
    assert foreign
    assert not [image for image in foreign if not re.fullmatch(r"[\w.:-]+@sha256:[0-9a-f]{64}", image)]
