"""The command line, run in this process: a separate process for each would take longer than the commands."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from registry.__main__ import main


def registrar(*words: str) -> CompletedProcess[str]:
    """Run ``registrar`` with these arguments; return its output and exit code.

    Snapshots are built by the quick engine.
    """
    if words[:2] == ("snapshot", "build"):
        words = (*words, "--engine", "local")
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())
