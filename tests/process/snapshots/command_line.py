"""The command line, run in this process: a process of its own for each would take longer than all they do."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from registry.__main__ import main


def registrar(*words: str) -> CompletedProcess[str]:
    """What ``registrar`` with these words prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())
