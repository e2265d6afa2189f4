"""A child process that is forked from this one: it need not import again what this one has imported.

Only for a process that has a single thread: in the child, locks of other threads would never be released.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Self

_NAME_BYTES_MAX = 15
_STANDARD_MAX = 2  # standard error


class ForkedProcess:
    """Runs a function in a fork of this process, with pipes to its standard input and output.

    It is used like a :class:`subprocess.Popen`.
    """

    def __init__(self, run: Callable[[], None], name: str) -> None:
        """Raises :class:`OSError`."""
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        self.stdin, self.stdout = open(our_output, "wb"), open(our_input, "rb")  # noqa: PTH123, SIM115
        self.returncode: int | None = None
        # Held while the process is killed or reaped: its id may be another's afterwards.
        self._ending = threading.Lock()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _run_child(run, name, their_input, their_output)
        except OSError:
            self._close()
            raise
        finally:
            os.close(their_input)
            os.close(their_output)

    def kill(self) -> None:
        """Kill it, unless its end is known."""
        with self._ending:
            if self.returncode is None:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until it has ended; return its exit code, negative for a signal."""
        if self.returncode is None:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
            with self._ending:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        self.stdout.close()
        with contextlib.suppress(OSError):  # what is left in its buffer
            self.stdin.close()


def _run_child(run: Callable[[], None], name: str, standard_input: int, standard_output: int) -> NoReturn:
    code = 1
    try:
        # Collecting objects of the parent would close files of this process.
        gc.freeze()
        os.dup2(standard_input, 0)
        os.dup2(standard_output, 1)
        close_all_but(1)
        name_process(name)
        run()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def close_all_but(kept: int) -> None:
    """Close all files but the standard ones and ``kept``.

    Above all the parent's ends of channels to others: those end when all such ends are closed.
    """
    for each in [int(file.name) for file in Path("/dev/fd").iterdir()]:
        if each > _STANDARD_MAX and each != kept:
            with contextlib.suppress(OSError):  # the folder's own is closed already
                os.close(each)


def name_process(name: str) -> None:
    """Name this process in ``top`` and ``ps -o comm``: its command line is the parent's; on Linux only."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:_NAME_BYTES_MAX], encoding="ascii")
