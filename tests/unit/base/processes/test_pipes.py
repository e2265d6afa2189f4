"""Messages between processes stay whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from registry.base.processes.child_process import receive

SENDS = """
import sys
from registry.base.processes.child_process import send

for number in range(20):
    send(sys.stdout.buffer, bytes([number]) * (3_000_000 + number))
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_message_stays_whole_when_its_sender_is_frozen(unbuffered: str) -> None:
    environment = dict(os.environ, PYTHONUNBUFFERED=unbuffered)
    with subprocess.Popen([sys.executable, "-c", SENDS], stdout=subprocess.PIPE, env=environment) as sender:
        assert sender.stdout is not None
        for number in range(20):
            # It is in the middle of a message: the pipe takes only a part of one.
            os.kill(sender.pid, signal.SIGSTOP)
            os.kill(sender.pid, signal.SIGCONT)
            message = receive(sender.stdout)
            assert message == bytes([number]) * (3_000_000 + number)
        assert receive(sender.stdout) is None
