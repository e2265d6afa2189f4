"""Checks that packages get the console's libraries, which make console bundles; and links to the project.

The address of the repository is not in the tree, so that a fork's packages lead to the fork. A release sets
it (PROJECT_URL); without it, packages have no links and an unchanged README.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

STATIC = Path(__file__).parent / "registry" / "ui" / "static"
LIBRARIES = ("vendor.js", "vendor-editor.js", "vendor.LICENSES.txt")
MISSING = "the console's libraries are not bundled: run make console first (needs Node 18 or newer with npm)"


def complete() -> bool:
    """Return true if all libraries are there."""
    return all((STATIC / name).exists() for name in LIBRARIES)


class BuildPy(build_py):
    """Copies the packages; without the libraries all but the console works, and /ui says so."""

    def run(self) -> None:
        """Warn if they are missing; an editable installation may get them later."""
        if not (self.editable_mode or complete()):
            self.warn(MISSING)
        super().run()


class Sdist(sdist):
    """Packs the sources with the libraries, so that what is published has them and needs no npm."""

    def run(self) -> None:
        """Pack them, or end the build if a library is missing."""
        if not complete():
            raise SystemExit(MISSING)
        super().run()


URL = os.environ.get("PROJECT_URL", "").rstrip("/")
LINKS = {
    "Source": URL,
    "Documentation": f"{URL}/blob/HEAD/docs/index.md",
    "Changelog": f"{URL}/blob/HEAD/CHANGELOG.md",
    "Issues": f"{URL}/issues",
    "Security": f"{URL}/security/policy",
}


def readme() -> str:
    """Return the README; with a known address, its links and pictures lead there from any other page."""
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    if not URL:
        return text
    text = re.sub(r"(!\[[^]]*\])\((?!https?:)", rf"\1({URL}/raw/HEAD/", text)
    return re.sub(r"(?<!!)(\[[^]!]*\])\((?!https?:|#)", rf"\1({URL}/blob/HEAD/", text)


setup(
    cmdclass={"build_py": BuildPy, "sdist": Sdist},
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls=LINKS if URL else {},
)
