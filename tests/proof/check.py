"""Check recorded histories: ``python -m tests.proof.check FILE …``; each may be compressed with gzip.

Porcupine checks them, an independent checker of linearizability in Go. It needs Go 1.21 or newer, and is
built once on each machine.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import orjson

from snapshots.spark.jars import cache, one_at_a_time

SOURCES = Path(__file__).parent / "linearizability"


class Finding(NamedTuple):
    """A part of a history that fits no legal order."""

    # "subject NAME" or "id NUMBER".
    part: str
    # Porcupine's: "Illegal", or "Unknown" if the time was up.
    verdict: str
    # The line of the first operation that fits nowhere.
    line: int


class NoHistory(ValueError):
    """The input does not have the format of a history."""


def is_available() -> bool:
    """Return true if the checker is built, or can be."""
    return _program().exists() or shutil.which("go") is not None


def check(history: bytes, *arguments: str) -> list[Finding]:
    """Return the parts that are not linearizable. Raises :class:`NoHistory`."""
    program = build()
    done = subprocess.run([program, *arguments], input=history, capture_output=True, check=False)
    findings = [Finding(**orjson.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode and not findings:
        raise NoHistory(done.stderr.decode().strip())
    return findings


def build() -> Path:
    """Return the checker's program, built unless it is in the cache folder."""
    program = _program()
    if not program.exists():
        with one_at_a_time(program):
            new = program.with_suffix(".new")
            command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(new), "."]
            subprocess.run(command, cwd=SOURCES, env=os.environ | {"GOFLAGS": ""}, check=True)
            new.rename(program)
    return program


def _program() -> Path:
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    return cache() / f"linearizability-{hashlib.sha256(sources).hexdigest()[:12]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--picture", metavar="HTML", help="draw the first part that is not linearizable")
    given = parser.parse_args()
    status = 0
    for path in given.files:
        raw = path.read_bytes()
        history = gzip.decompress(raw) if path.suffix == ".gz" else raw
        try:
            findings = check(history, *(["--picture", given.picture] if given.picture else []))
        except NoHistory as error:
            sys.exit(f"{path}: {error}")
        lines = history.splitlines()
        for part, verdict, number in findings:
            print(f"{path}:{number}: {part}: {verdict}: {lines[number - 1].decode() if number else ''}")
        print(f"{path}: {len(lines) - 1} operations, {'not ' if findings else ''}linearizable")
        status |= bool(findings)
    return status


if __name__ == "__main__":
    sys.exit(main())
