"""Releases as ``make release`` builds them: the same bytes twice, allowed licenses, a chart for Helm."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.release import components, publishing
from deploy.release.__main__ import main
from deploy.release.packages import Image, build_chart
from deploy.release.publishing import IMAGES, REST, Release
from registry import VERSION
from tests.process.deploy.conftest import EPOCH, PROJECT_URL, release
from tests.support.helm import CHART
from tests.support.running import ROOT

NAME = f"kafka-registrar-{VERSION}"
DIGEST = f"sha256:{'0' * 64}"


def sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def listed(released: Path) -> dict[str, Any]:
    return json.loads((released / f"{NAME}.cdx.json").read_text())


def test_a_second_build_in_another_place_has_the_same_bytes(released: Path, tmp_path: Path) -> None:
    # Another folder, umask, time zone, language and order of hashes.
    other = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "PYTHONHASHSEED": "7", "TMPDIR": str(tmp_path)}
    printed = release(tmp_path / "again", 0o077, other)
    assert sums(tmp_path / "again") == sums(released)
    assert set(sums(released)) == {
        f"kafka_registrar-{VERSION}.tar.gz", f"kafka_registrar-{VERSION}-py3-none-any.whl",
        f"registrar-{VERSION}.tgz", f"{NAME}.cdx.json", f"{NAME}.provenance.json", "NOTES.md", "SHA256SUMS",
    }  # fmt: skip
    for step in (IMAGES, *REST):
        assert f"  {step.what} (missing here: " in printed or f"  {step.what}\n" in printed
    assert "the variable IMAGES" in printed


def test_the_page_of_the_package_leads_to_the_repository(released: Path) -> None:
    (file,) = released.glob("*.whl")
    with zipfile.ZipFile(file) as wheel:
        about = wheel.read(f"kafka_registrar-{VERSION}.dist-info/METADATA").decode()
    assert f"Project-URL: Source, {PROJECT_URL}\n" in about
    targets = re.findall(r"\]\(([^)]+)\)", about)
    assert len(targets) > 50
    assert not [each for each in targets if not each.startswith("https://")]
    assert f"{PROJECT_URL}/raw/HEAD/bench/start.svg" in targets
    assert f"{PROJECT_URL}/blob/HEAD/docs/install.md" in targets


def test_the_sums_and_the_provenance_cover_every_file(released: Path) -> None:
    lines = (released / "SHA256SUMS").read_text().splitlines()
    written = {name: digest for digest, name in (line.split("  ") for line in lines)}
    present = sums(released)
    assert written == {name: digest for name, digest in present.items() if name != "SHA256SUMS"}
    statement = json.loads((released / f"{NAME}.provenance.json").read_text())
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert subjects == {
        name: digest for name, digest in present.items() if not name.endswith(("SUMS", "provenance.json"))
    }
    source, *locks = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert source == {"uri": f"git+{PROJECT_URL}", "digest": {"gitCommit": head.stdout.strip()}}
    assert {each["name"] for each in locks} >= {"requirements.txt", "registry/ui/package-lock.json"}


def test_the_parts_list_is_valid_cyclonedx(released: Path) -> None:
    text = (released / f"{NAME}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_parts_list_holds_every_requirement_and_every_bundled_library(listed: dict[str, Any]) -> None:
    found = {each["purl"].partition("?")[0]: each for each in listed["components"]}
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    for name, version in pinned:
        assert found[f"pkg:pypi/{name}@{version}"]["scope"] == "required"
    assert {name for name in found if name.startswith("pkg:pypi/pyspark@")} < found.keys()
    bundled = (ROOT / "registry/ui/static/vendor.LICENSES.txt").read_text()
    assert {name.rpartition("/")[2].partition("@")[0] for name in found if "npm" in name} == {
        name.rpartition("/")[2] for name in re.findall(r"^(\S+) \S+ \(.+\)$", bundled, re.MULTILINE)
    }
    reached = {name for each in listed["dependencies"] for name in each.get("dependsOn", ())}
    assert reached == {each["bom-ref"] for each in listed["components"]}, "each part is needed by something"


def test_the_licenses_of_all_parts_are_allowed() -> None:
    found = components.parts(ROOT)
    assert not components.refused_parts(found)
    assert {part.name for part in found} >= {"cryptography", "pyspark", "opentelemetry-sdk", "preact"}
    strict = components.Part("pypi", "strict", "1", "(MIT OR GPL-3.0-only) AND Zlib", frozenset())
    assert components.refused_parts([*found, strict]) == {"strict": strict.license}


def test_a_package_that_states_no_license_ends_the_build() -> None:
    with pytest.raises(ValueError, match="promql-parser: read the text of its license"):
        components.license_of("promql-parser")


def test_helm_reads_the_packed_chart_and_renders_the_same(released: Path) -> None:
    code = (
        "import json, pathlib, sys, helm_python\n"
        "packed = helm_python.Chart.load_archive(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "charts = (packed, helm_python.Chart.load(sys.argv[2]))\n"
        "values = {'peer': {'existingSecret': 'peer'}, 'kafka': {'brokers': 'kafka:9092'}}\n"
        "print(json.dumps([each.render(values, name='r', namespace='n') for each in charts]))\n"
    )
    command = [sys.executable, "-c", code, str(released / f"registrar-{VERSION}.tgz"), str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    packed, folder = json.loads(done.stdout)
    assert packed == folder
    assert len(packed) > 5


def test_a_published_chart_names_its_images_by_digest(tmp_path: Path) -> None:
    images = {"node": Image("example.com/o/registrar", DIGEST), "spark": Image("", DIGEST.replace("0", "1"))}
    with tarfile.open(build_chart(ROOT, tmp_path, int(EPOCH), images)) as archive:
        values = yaml.safe_load(archive.extractfile("registrar/values.yaml").read())
    assert (values["image"]["repository"], values["image"]["digest"]) == ("example.com/o/registrar", DIGEST)
    assert values["snapshots"]["imageDigest"] == DIGEST.replace("0", "1")


def test_nothing_is_published_from_a_commit_without_its_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.delenv("IMAGES", raising=False)
    kept = tmp_path / "kept"
    kept.write_text("not removed")
    assert main(["--output", str(tmp_path)]) == 1
    printed = capsys.readouterr().err
    assert "the variable IMAGES" in printed
    assert f"{tmp_path} holds other files" in printed
    assert f"no tag v{VERSION}" in printed
    assert main(["--dry-run", "--output", str(tmp_path)]) == 1
    assert kept.read_text() == "not removed"


def test_each_step_is_ordered_and_names_images_by_digest(released: Path, tmp_path: Path) -> None:
    made = Release(ROOT, tmp_path, VERSION, "c" * 40, int(EPOCH), "example.com/o", PROJECT_URL)
    for path in released.iterdir():
        (tmp_path / path.name).symlink_to(path)
    commands = [*IMAGES.commands(made)]
    assert [command[command.index("--tag") + 1] for command in commands] == [
        f"example.com/o/registrar:{VERSION}", f"example.com/o/registrar:{VERSION}-spark"
    ]  # fmt: skip
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert {command[command.index("--target") + 1] for command in commands} <= set(stages)
    for variant in publishing.VARIANTS:
        made.metadata(variant).write_text(json.dumps({"containerimage.digest": DIGEST}))
    signed = [command[-1] for command in REST[0].commands(made)]
    assert signed[:2] == [f"example.com/o/registrar@{DIGEST}"] * 2
    assert {Path(name).name for name in signed[2:]} == set(sums(released))


def test_the_notes_are_this_version_of_the_changelog(released: Path) -> None:
    notes = (released / "NOTES.md").read_text()
    assert notes.startswith("What is new")
    assert "## [" not in notes
    targets = re.findall(r"\]\(([^)]+)\)", notes)
    assert f"{PROJECT_URL}/blob/v{VERSION}/docs/releases.md" in targets
    assert not [each for each in targets if not each.startswith("https://")]
    with pytest.raises(ValueError, match=r"says nothing about 99\.0\.0"):
        publishing.notes(ROOT, "99.0.0")
