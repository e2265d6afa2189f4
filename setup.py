"""Checks that packages get the console's libraries, which make console bundles."""

from __future__ import annotations

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


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
