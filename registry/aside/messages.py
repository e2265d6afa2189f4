"""What goes through the pipes: pickles with their length before them, because both ends are ours."""

from __future__ import annotations

from typing import IO, NamedTuple

from registry.domain.questions import Known, Question

LENGTH_BYTES = 8
READY = b"ready"
"""The first message: the process has started."""


class Asked(NamedTuple):
    """What is asked; how long the texts may be read, and how long they may be compared, in seconds."""

    question: Question
    budget_s: float
    reading_s: float


class Told(NamedTuple):
    """The answer, or ``None`` where it would take too long; and how many seconds comparing took."""

    known: Known | None
    took_s: float


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write a message."""
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """The next message; ``None`` when the other side is gone."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    message = pipe.read(size)
    return message if len(message) == size else None
