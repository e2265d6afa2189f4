"""The source distribution and the wheel: built, installed into a fresh environment, and run from there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from deploy.local.node import Node
from registry import VERSION
from tests.support.running import ROOT

PACKAGES = ("registry", "registrar", "election", "snapshots")
NAME = f"kafka_registrar-{VERSION}"
# What is published next to the packages.
BESIDE = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"),
    "requirements.txt",
)


def run(*command: str | Path, folder: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(kind: str, source: Path, into: Path) -> Path:
    """Build the project in ``source`` as installers do, without a further download; return the file."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    into.mkdir()
    run(sys.executable, "-c", code, into, folder=source)
    (file,) = into.iterdir()
    return file


@pytest.fixture(scope="module")
def sdist(released: Path) -> Path:
    """Return the source distribution, built from all files of the checkout."""
    (file,) = released.glob("*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(released: Path) -> Path:
    """Return the wheel, built from the source distribution as installers do."""
    (file,) = released.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a fresh virtual environment that borrows this one's libraries; return bin/."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, folder=folder)
    # A line of a .pth file adds this folder, but reads none of its own .pth files: not the checkout's.
    purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    (Path(purelib.strip()) / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def product_files() -> set[str]:
    """Return what a node needs: every file of the packages but documents and what bundles libraries."""
    files = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file())
    left = {"__pycache__", "node_modules"}
    kept = (path for path in files if path.suffix != ".md" and not left & {*path.parts})
    return {str(path.relative_to(ROOT)) for path in kept} - bundle_sources()


def bundle_sources() -> set[str]:
    """Return the files of which the console's libraries are bundled."""
    folder = ROOT / "registry" / "ui"
    files = (*folder.glob("package*.json"), *(folder / "bundle").iterdir())
    return {str(path.relative_to(ROOT)) for path in files}


def pins(name: str) -> set[str]:
    """Return the pinned versions in a lock file."""
    return set(re.findall(r"^[\w.-]+==\S+", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize(("extra", "package"), [("spark", "pyspark"), ("otel", "opentelemetry-sdk")])
def test_the_extras_of_the_images_have_the_versions_that_are_tested(extra: str, package: str) -> None:
    locked = pins(f"requirements-{extra}.txt")
    assert any(pin.startswith(f"{package}==") for pin in locked)
    assert locked <= pins("requirements.txt") | pins("requirements-dev.txt")


def test_the_source_distribution_holds_the_product_and_nothing_else(sdist: Path) -> None:
    assert sdist.name == f"{NAME}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
    made = {name for name in names if name.startswith("kafka_registrar.egg-info/")}
    assert names - made == product_files() | bundle_sources() | set(BESIDE) | {"PKG-INFO", "setup.cfg"}


def test_the_wheel_holds_the_product_and_its_license_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if name.startswith(f"{NAME}.dist-info/")}
    assert names - about == product_files()
    assert f"{NAME}.dist-info/licenses/LICENSE" in about


def test_without_the_bundled_libraries_nothing_is_published(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / NAME / "registry" / "ui" / "static" / "vendor.js").unlink()
    with pytest.raises(AssertionError, match="run make console first"):
        built("sdist", tmp_path / NAME, tmp_path / "refused")
    built("wheel", tmp_path / NAME, tmp_path / "dist")


def test_the_installed_requirements_are_the_declared_ones(installed: Path) -> None:
    code = "import importlib.metadata as m, registry; print(m.version('kafka-registrar'), registry.__file__)"
    version, file = run(installed / "python", "-c", code, folder=installed).split()
    assert version == VERSION
    assert Path(file).is_relative_to(installed.parent)
    run(sys.executable, "-m", "pip", "--python", installed / "python", "check", folder=installed)


def test_the_installed_command_reports_its_version_and_serves(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "registrar", "--version", folder=tmp_path) == f"registrar {VERSION}\n"
    node = Node(tmp_path / "node", ["--readers", "1"])
    node.command = [str(installed / "registrar"), *node.command[node.command.index("serve") :]]
    node.environment = {"PATH": os.environ["PATH"]}
    with node:
        status, body = node.ask("/v1/metadata/version")
        assert (status, json.loads(body)["version"]) == (200, VERSION)
