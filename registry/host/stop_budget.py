"""Seconds that each step of a stop may take: one table, which all processes of a host read.

At the signal, the supervisor lets the node resign and stops the readers. Once they have ended, it
stops the node. A step ends as soon as nothing is left of it. What a process still holds when its time
is over is lost, because it is killed; so the supervisor's deadlines are the sums of the steps.
"""

from __future__ import annotations

from typing import Final

# What is left of a process after its last step: closing files and connections, the interpreter's end.
END_S: Final = 0.5

# The steps of a reader: answer the requests in progress, then hand over audit entries and, at the same time,
# traces.
REQUESTS_S: Final = 2.5
READER_SINKS_S: Final = 1.5
READERS_S: Final = REQUESTS_S + READER_SINKS_S + END_S

# What the node does meanwhile: leave the election, and answer the commands that the log, or another node, has
# not answered. The readers pass these answers on while they still serve.
RESIGN_S: Final = 1.0
GIVE_UP_S: Final = 1.8
FORWARDING_S: Final = 0.2

# The steps of the node once there are no readers: end the requests of peers and those forwarded, the
# election, the thread that writes and the other threads, then hand over audit entries and traces.
PEERS_S: Final = 0.5
ELECTION_S: Final = 0.5
WRITER_S: Final = 1.0
THREADS_S: Final = 0.5
NODE_SINKS_S: Final = 1.0
NODE_S: Final = PEERS_S + FORWARDING_S + ELECTION_S + WRITER_S + THREADS_S + NODE_SINKS_S + END_S

# The step before the last one of a node that is still opening its log and store.
OPENING_S: Final = 1.0

# From the signal to the end of the last process. ``docker stop`` kills after 10 s.
STOP_S: Final = READERS_S + NODE_S
