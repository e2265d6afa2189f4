"""Helm, for tests of the chart: lints and renders it with several values at once.

It runs as a process of its own, ``python -m tests.support.helm``: the library brings Go's runtime with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.running import ROOT

CHART = ROOT / "deploy" / "chart"
RELEASE = "registrar"
NAMESPACE = "schemas"


@dataclass(frozen=True)
class Rendered:
    """The findings and objects for one set of values; either ``error`` is set, or the rest."""

    error: str
    findings: list[dict[str, Any]]
    objects: list[dict[str, Any]]
    notes: str

    def kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str) -> dict[str, Any]:
        """Return the only object of a kind."""
        (found,) = self.kind(kind)
        return found


def render(cases: list[dict[str, Any]]) -> list[Rendered]:
    """Lint and render the chart with each of these values."""
    command = [sys.executable, "-m", "tests.support.helm"]
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return [
        Rendered(
            each.get("error", ""),
            each.get("findings", []),
            [found for text in each.get("files", ()) for found in yaml.safe_load_all(text) if found],
            each.get("notes", ""),
        )
        for each in json.loads(done.stdout)
    ]


def _answer(values: dict[str, Any]) -> dict[str, Any]:
    import helm_python  # noqa: PLC0415 - only in the process of its own

    try:
        linted = helm_python.lint(CHART, values, strict=True, namespace=NAMESPACE)
        with helm_python.Chart.load(CHART) as chart:
            files = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    except helm_python.HelmError as error:
        return {"error": str(error)}
    notes = next(text for name, text in files.items() if name.endswith("NOTES.txt"))
    manifests = [text for name, text in files.items() if name.endswith(".yaml")]
    return {"findings": linted["messages"], "files": manifests, "notes": notes}


if __name__ == "__main__":
    json.dump([_answer(values) for values in json.load(sys.stdin)], sys.stdout)
