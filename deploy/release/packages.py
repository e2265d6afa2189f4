"""The wheel, the source distribution and the chart: the same bytes from the same commit, on any machine.

Times are those of the commit; owners, modes and the order of files do not depend on the machine.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

CHART = Path("deploy/chart")
LIBRARIES = ("vendor.js", "vendor-editor.js", "vendor.LICENSES.txt")
STATIC = Path("registry/ui/static")


class Built(NamedTuple):
    """The files of a release that package managers install."""

    sdist: Path
    wheel: Path


class Image(NamedTuple):
    """An image as the chart names it: by repository and digest."""

    repository: str
    digest: str


def git(root: Path, *arguments: str) -> str:
    """Return what git prints. Raises CalledProcessError."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sources(root: Path) -> list[Path]:
    """Return the files that belong to the project: those of git, and the bundled libraries of the console."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    files = {Path(name) for name in listed if name} | {STATIC / name for name in LIBRARIES}
    return sorted(path for path in files if (root / path).is_file())


def build_packages(root: Path, output: Path, epoch: int, project_url: str = "") -> Built:
    """Build the source distribution, and from it the wheel, as installers do; times are ``epoch`` (Unix)."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        checkout = folder / "checkout"
        _copy(root, checkout)
        made = _build("sdist", checkout, folder / "sdist", epoch, project_url)
        sdist = output / made.name
        _rewrite(made, sdist, epoch)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = folder / sdist.name.removesuffix(".tar.gz")
        wheel = _build("wheel", unpacked, folder / "wheel", epoch, project_url)
        return Built(sdist, Path(shutil.copy(wheel, output)))


def build_chart(root: Path, output: Path, epoch: int, images: Mapping[str, Image] | None = None) -> Path:
    """Pack the chart as Helm does; ``images``, "node" and "spark", are named in it instead of tags."""
    folder = root / CHART
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    texts = {path.relative_to(folder): path.read_bytes() for path in files}
    named = dict(re.findall(rb"^(name|version): (\S+)$", texts[Path("Chart.yaml")], re.MULTILINE))
    name, version = named[b"name"].decode(), named[b"version"].decode()
    if images:
        texts[Path("values.yaml")] = _with_images(texts[Path("values.yaml")].decode(), images).encode()
    target = output / f"{name}-{version}.tgz"
    # Helm reads the description of the chart first.
    paths = sorted(texts, key=lambda path: (path.name != "Chart.yaml", path))
    _write(target, {f"{name}/{path.as_posix()}": texts[path] for path in paths}, epoch)
    return target


def _copy(root: Path, checkout: Path) -> None:
    for path in sources(root):
        target = checkout / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target)


def _build(kind: str, source: Path, into: Path, epoch: int, project_url: str) -> Path:
    into.mkdir()
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    environment = {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "SOURCE_DATE_EPOCH": str(epoch),
        "PROJECT_URL": project_url,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code, str(into)],
        cwd=source, env=environment, umask=0o022, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the {kind} cannot be built:\n{done.stdout}{done.stderr}")
    (made,) = into.iterdir()
    return made


def _rewrite(archive: Path, target: Path, epoch: int) -> None:
    """Write an archive again without what differs between machines."""
    with tarfile.open(archive) as source:
        members = sorted((each for each in source if each.isfile()), key=lambda each: each.name)
        files = {each.name: _content(source, each) for each in members}
    _write(target, files, epoch)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file
    return file.read()


def _write(target: Path, files: Mapping[str, bytes], epoch: int) -> None:
    """Write contents by their names, in the order given. No file of the product is executable."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), epoch
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))


def _with_images(values: str, images: Mapping[str, Image]) -> str:
    node, spark = images["node"], images["spark"]
    for line, replacement in (
        (r"^  repository: registrar$", f"  repository: {node.repository}"),
        (r'^  digest: ""', f"  digest: {node.digest}"),
        (r'^  imageDigest: ""', f"  imageDigest: {spark.digest}"),
    ):
        values, count = re.subn(line, replacement, values, flags=re.MULTILINE)
        assert count == 1, f"values.yaml has no line {line}"
    return values
