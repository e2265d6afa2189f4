"""``python -m deploy.release``, which ``make release`` calls: build a release, and publish it.

A dry run leaves every file in the folder and says what is not done on this machine, and why.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.release import publishing
from deploy.release.components import parts_list
from deploy.release.packages import Image, build_chart, build_packages, git
from deploy.release.publishing import IMAGES, REST, SUMS, Release, Step
from registry import VERSION

ROOT = Path(__file__).parent.parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status: 1 if nothing was built, because something is missing or in the way."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="publish nothing")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="replaces a former release")
    options = parser.parse_args(arguments)
    release = _release(options.output)
    faults = [] if options.dry_run else publishing.unready(release) + _lacking()
    if _has_other_files(release.output):
        faults.append(f"{release.output} holds other files, which would be removed")
    if faults:
        print("Nothing was built:", *faults, sep="\n  ", file=sys.stderr)
        return 1
    shutil.rmtree(release.output, ignore_errors=True)
    release.output.mkdir(parents=True)
    if not options.dry_run:
        _run(IMAGES, release)
    build(release, None if options.dry_run else release.pushed_images())
    _print_files(release)
    if options.dry_run:
        _print_left_out(release)
        return 0
    for step in REST:
        _run(step, release)
    return 0


def build(release: Release, images: Mapping[str, Image] | None = None) -> None:
    """Write all files of a release into its folder."""
    build_packages(release.root, release.output, release.epoch, release.project_url)
    build_chart(release.root, release.output, release.epoch, images)
    name = f"kafka-registrar-{release.version}"
    listed = parts_list(release.root, release.version, release.commit, release.epoch)
    (release.output / f"{name}.cdx.json").write_text(listed, encoding="utf-8")
    notes = publishing.notes(release.root, release.version, release.project_url)
    (release.output / "NOTES.md").write_text(notes, encoding="utf-8")
    origin = publishing.provenance(release)
    (release.output / f"{name}.provenance.json").write_text(origin, encoding="utf-8")
    sums = [f"{publishing.sha256(path)}  {path.name}\n" for path in release.artifacts()]
    (release.output / SUMS).write_text("".join(sums), encoding="utf-8")


def _release(output: Path) -> Release:
    commit = git(ROOT, "rev-parse", "HEAD").strip()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or git(ROOT, "log", "-1", "--format=%ct"))
    given = {name.lower(): os.environ.get(name, "") for name in ("IMAGES", "PROJECT_URL")}
    return Release(ROOT, output, VERSION, commit, epoch, **given)


def _has_other_files(folder: Path) -> bool:
    """Return true if a folder holds anything, and not a release."""
    return folder.exists() and any(folder.iterdir()) and not (folder / SUMS).exists()


def _lacking() -> list[str]:
    found = (fault for step in (IMAGES, *REST) for fault in publishing.missing(step, dict(os.environ)))
    return list(dict.fromkeys(found))


def _run(step: Step, release: Release) -> None:
    print(f"{step.what}:", flush=True)
    for command in step.commands(release):
        print(f"  {shlex.join(command)}", flush=True)
        subprocess.run(command, cwd=release.root, check=True)


def _print_files(release: Release) -> None:
    for path in sorted(release.output.iterdir()):
        print(f"{publishing.sha256(path)}  {path.stat().st_size:>9}  {path}")


def _print_left_out(release: Release) -> None:
    print("\nA dry run publishes nothing. Not done:")
    for step in (IMAGES, *REST):
        lacking = publishing.missing(step, dict(os.environ))
        reason = f" (missing here: {', '.join(lacking)})" if lacking else ""
        print(f"  {step.what}{reason}")
    faults = publishing.unready(release)
    if faults:
        print("Before this commit can be published:", *faults, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())
