"""The steps that publish a release, each with what it needs; and where its files come from (SLSA provenance).

Nothing is published before everything that any step needs was found; a dry run says what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deploy.release.packages import Image, git

PLATFORMS = "linux/amd64,linux/arm64"
VARIANTS = {"node": "", "spark": "-spark"}
SUMS = "SHA256SUMS"
_LOCKS = (
    *("requirements.txt", "requirements-otel.txt", "requirements-spark.txt"),
    "registry/ui/package-lock.json",
)


@dataclass(frozen=True)
class Release:
    """A version to publish, made of a commit, and where to.

    ``images`` is the prefix of images and of the chart at a registry ("ghcr.io/owner"), ``project_url`` the
    address of the repository. Either may be empty in a dry run.
    """

    root: Path
    output: Path
    version: str
    commit: str
    epoch: int
    images: str = ""
    project_url: str = ""

    def image(self, variant: str) -> str:
        """Return an image's name with its tag."""
        return f"{self.images}/registrar:{self.version}{VARIANTS[variant]}"

    def digest(self, variant: str) -> str:
        """Return the digest of an image that was pushed."""
        return str(json.loads(self.metadata(variant).read_text())["containerimage.digest"])

    def metadata(self, variant: str) -> Path:
        """Return the file in which BuildKit says what it built."""
        return self.output / f"image-{variant}.json"

    def pushed_images(self) -> dict[str, Image]:
        """Return the images that were pushed, as the chart names them."""
        return {each: Image(f"{self.images}/registrar", self.digest(each)) for each in VARIANTS}

    def artifacts(self) -> list[Path]:
        """Return the files to publish, without signatures."""
        files = (path for path in self.output.iterdir() if not path.name.startswith("image-"))
        return sorted(path for path in files if not path.name.endswith(".sigstore.json"))


class Step(NamedTuple):
    """One step: the programs and variables that it needs, and its commands, made when it is its turn."""

    what: str
    needs: tuple[str, ...]
    commands: Callable[[Release], Iterator[list[str]]]


def missing(step: Step, variables: dict[str, str]) -> list[str]:
    """Return what a step needs and this machine lacks."""
    lacking = [f"the variable {name}" for name in step.needs if name.isupper() and not variables.get(name)]
    for program in (name for name in step.needs if not name.isupper()):
        if not shutil.which(program):
            lacking.append(f"the program {program}")
        elif program == "docker" and not _has_engine():
            lacking.append("a Docker engine that answers")
    return lacking


def _has_engine() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def build_images(release: Release) -> Iterator[list[str]]:
    """Build and push the images, each with its parts list and provenance."""
    for variant in VARIANTS:
        yield [
            *("docker", "buildx", "build", "--file", "deploy/Dockerfile", "--target", variant),
            *("--platform", PLATFORMS, "--build-arg", f"SOURCE_DATE_EPOCH={release.epoch}"),
            *("--sbom", "true", "--provenance", "mode=max"),
            *("--metadata-file", str(release.metadata(variant))),
            *("--label", f"org.opencontainers.image.revision={release.commit}"),
            *("--label", f"org.opencontainers.image.version={release.version}"),
            *("--label", f"org.opencontainers.image.source={release.project_url}"),
            *("--tag", release.image(variant), "--push", "."),
        ]


def sign(release: Release) -> Iterator[list[str]]:
    """Sign the images by digest, and the sums of all files, with the identity of the workflow."""
    for variant in VARIANTS:
        yield ["cosign", "sign", "--yes", f"{release.images}/registrar@{release.digest(variant)}"]
    for path in release.artifacts():
        yield ["cosign", "sign-blob", "--yes", "--bundle", f"{path}.sigstore.json", str(path)]


def push_chart(release: Release) -> Iterator[list[str]]:
    """Push the chart, which names the images by digest."""
    chart = release.output / f"registrar-{release.version}.tgz"
    yield ["helm", "push", str(chart), f"oci://{release.images}/charts"]


def upload_packages(release: Release) -> Iterator[list[str]]:
    """Upload wheel and source distribution to the package index, which trusts the workflow."""
    files = (str(path) for path in release.artifacts() if path.name.endswith((".whl", ".tar.gz")))
    yield ["uv", "publish", "--trusted-publishing", "always", *files]


def publish_notes(release: Release) -> Iterator[list[str]]:
    """Make the release's page, with all files."""
    files = [str(path) for path in sorted(release.output.iterdir()) if not path.name.startswith("image-")]
    yield [
        *("gh", "release", "create", f"v{release.version}", "--verify-tag"),
        *("--notes-file", str(release.output / "NOTES.md"), *files),
    ]


IMAGES = Step("build and push the images for amd64 and arm64", ("docker", "IMAGES"), build_images)
# In this order, after the files were built.
REST = (
    Step("sign", ("cosign", "IMAGES"), sign),
    Step("push the chart", ("helm", "IMAGES"), push_chart),
    Step("upload the packages", ("uv",), upload_packages),
    Step("make the page of the release", ("gh", "PROJECT_URL"), publish_notes),
)


def unready(release: Release) -> list[str]:
    """Return what must be done before this commit may be published."""
    faults = []
    if git(release.root, "status", "--porcelain"):
        faults.append("there are changes that are not committed")
    if f"v{release.version}" not in git(release.root, "tag", "--points-at", "HEAD").split():
        faults.append(f"the commit has no tag v{release.version}")
    if re.search(r"^- ", _section(release.root, "Unreleased"), re.MULTILINE):
        faults.append("CHANGELOG.md has entries under [Unreleased]")
    return faults


def notes(root: Path, version: str, project_url: str = "") -> str:
    """Return what the changelog says about a version. Raises ValueError if it says nothing.

    The page of a release is no file of the repository: with a known address, links lead there from anywhere.
    """
    text = _section(root, version).strip()
    if not text:
        raise ValueError(f"CHANGELOG.md says nothing about {version}")
    if project_url:
        text = re.sub(r"\]\((?!https?:|#)", f"]({project_url}/blob/v{version}/", text)
    return f"{text}\n"


def _section(root: Path, title: str) -> str:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.split(r"^## ", text.partition(f"## [{title}]")[2], maxsplit=1, flags=re.MULTILINE)[0]


def provenance(release: Release) -> str:
    """Return an in-toto statement with SLSA's predicate: the files come from this commit and these locks."""
    workflow = os.environ.get("GITHUB_WORKFLOW_REF")
    server = os.environ.get("GITHUB_SERVER_URL")
    builder = f"{server}/{workflow}" if workflow else "urn:kafka-registrar:by-hand"
    source = release.project_url or "urn:kafka-registrar"
    locks = [{"name": name, "digest": {"sha256": sha256(release.root / name)}} for name in _LOCKS]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in release.artifacts()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:kafka-registrar:make-release",
                "externalParameters": {"version": release.version, "SOURCE_DATE_EPOCH": release.epoch},
                "resolvedDependencies": [
                    {"uri": f"git+{source}", "digest": {"gitCommit": release.commit}}, *locks
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }  # fmt: skip
    return json.dumps(statement, indent=2) + "\n"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
