"""Running verbs: in this process, which is fast, or in one of their own, with an environment."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from registry.__main__ import main
from tests.support.running import ROOT

# Where verbs keep notes on imports: not where the user's own are.
_STATE = tempfile.TemporaryDirectory(prefix="registrar-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name


class Done(NamedTuple):
    """A verb that has ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output, one JSON document."""
        return json.loads(self.out)


def verb(*words: str) -> Done:
    """Run a verb in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(words)
    return Done(status, out.getvalue(), err.getvalue())


def verb_with(*words: str, **environment: str) -> Done:
    """Run a verb in this process; ``environment`` replaces all variables of the client."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in os.environ if each.startswith("REGISTRAR_")]:
            patch.delenv(name)
        for name, word in environment.items():
            patch.setenv(name, word)
        return verb(*words)


def verb_process(*words: str, stdin: str = "", folder: Path = ROOT, **environment: str) -> Done:
    """Run a verb in a process of its own; ``environment`` replaces all variables of the client."""
    inherited = {name: word for name, word in os.environ.items() if not name.startswith("REGISTRAR_")}
    inherited["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-m", "registry", *words],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        env=inherited | environment,
        check=False,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)
