"""TLC, the model checker of TLA+, on the modules of tests/proof/model/.

``python -m tests.proof.tlc`` makes all checks. TLC needs Java, and is fetched once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from deploy.local.jars import java
from snapshots.spark.jars import Jars

from .replay import Event, module

MODEL = Path(__file__).parent / "model"
INVARIANTS = (
    "NoIdTwice", "NothingTwice", "NothingAcknowledgedIsLost", "NoStaleRead", "OneWriter", "StoresAreTrue",
)  # fmt: skip
_JVM = ("-XX:+UseParallelGC", "-Xmx2g", "-XX:-UsePerfData")


class Bounds(NamedTuple):
    """The size of the model."""

    producers: int = 1
    # Of each producer.
    epochs: int = 2
    # Records sent at most.
    sent: int = 4
    # Cuts of the log.
    cuts: int = 0
    readers: int = 0
    nodes: int = 2


# All behaviors within each of these bounds are checked, by make test-long.
CHECKED = (
    Bounds(sent=5), Bounds(nodes=3, sent=3), Bounds(cuts=1), Bounds(epochs=1, sent=3, cuts=1, readers=1),
    Bounds(producers=2, epochs=1, sent=6), Bounds(producers=2),
)  # fmt: skip
# For each rule of the protocol, and each assumption on Kafka: bounds within which it is missed, and by what.
NEEDED = {
    "fence": (Bounds(), "NoIdTwice"),
    "sequence": (Bounds(sent=3), "NothingTwice"),
    "barrier": (Bounds(), "OneWriter"),
    "former": (Bounds(producers=2, epochs=1, sent=6), "OneWriter"),
    "gap": (Bounds(producers=2), "OneWriter"),
    "own": (Bounds(producers=2, sent=3), "OneWriter"),
    "confirmed": (Bounds(epochs=1, sent=2, readers=1), "NothingAcknowledgedIsLost"),
    "end": (Bounds(epochs=1, sent=2, readers=1), "NoStaleRead"),
    "lineage": (Bounds(cuts=1), "StoresAreTrue"),
}


class Result(NamedTuple):
    """The findings of TLC."""

    # The invariant that is violated; empty if none is.
    violated: str
    # The number of different states.
    states: int
    output: str


def check(bounds: Bounds, broken: str = "", promises: Sequence[str] = INVARIANTS) -> Result:
    """Check ``promises`` in all behaviors within ``bounds``, without the rule ``broken``."""
    constants = {
        "Nodes": _named("n", bounds.nodes),
        "Producers": bounds.producers,
        "Epochs": bounds.epochs,
        "SentMax": bounds.sent,
        "CutsMax": bounds.cuts,
        "Readers": _named("r", bounds.readers),
        "Broken": f'{{"{broken}"}}' if broken else "{}",
    }
    return _run("Check", constants, "INIT Init\nNEXT Next\nSYMMETRY Symmetric\n", promises=promises)


def replay(histories: Sequence[Sequence[Event]]) -> list[int]:
    """Return how many events of each history are steps of the model, up to the first that is none."""
    constants = {
        "Nodes": '{"n0", "n1", "n2"}',
        "Producers": 0, "Epochs": 0, "SentMax": 0, "CutsMax": 0, "Readers": "{}", "Broken": "{}",
    }  # fmt: skip
    result = _run("Replay", constants, "INIT InitReplay\nNEXT NextReplay\n", module(histories))
    assert not result.violated, result.output
    reached = [0] * len(histories)
    for trace, at in re.findall(r'<<"event", (\d+), (\d+)>>', result.output):
        reached[int(trace) - 1] = max(reached[int(trace) - 1], int(at))
    return reached


def _named(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{number}" for number in range(count)) + "}"


def _run(
    root: str,
    constants: dict[str, object],
    behavior: str,
    traces: str = "",
    promises: Sequence[str] = INVARIANTS,
) -> Result:
    """Run TLC in a folder of its own, where it leaves its states."""
    lines = "".join(f"    {name} = {value}\n" for name, value in constants.items())
    config = f"CONSTANTS\n{lines}{behavior}INVARIANTS {' '.join(promises)}\nCHECK_DEADLOCK FALSE\n"
    jars = Jars(MODEL, "tlc", java, lambda text: print(text, file=sys.stderr, flush=True)).here()
    with tempfile.TemporaryDirectory() as work:
        for path in MODEL.glob("*.tla"):
            shutil.copy(path, work)
        Path(work, "Run.cfg").write_text(config, encoding="utf-8")
        if traces:
            Path(work, "Traces.tla").write_text(traces, encoding="utf-8")
        command = [
            *(java(), *_JVM, f"-Djava.io.tmpdir={work}", "-cp", ":".join(map(str, jars)), "tlc2.TLC"),
            *("-workers", "2", "-config", "Run.cfg", root),
        ]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    violated = re.search(r"Invariant (\w+) is violated", done.stdout)
    states = re.search(r"(\d+) distinct states found, (\d+) states left", done.stdout)
    is_complete = "No error has been found" in done.stdout
    assert violated or is_complete, f"TLC failed:\n{done.stdout[-4000:]}{done.stderr}"
    return Result(violated[1] if violated else "", int(states[1]) if states else 0, done.stdout)


def main() -> int:
    failed = False
    for bounds in CHECKED:
        found = check(bounds)
        print(f"{bounds}: {found.states} states: {found.violated or 'every promise holds'}", flush=True)
        failed |= bool(found.violated)
    for rule, (bounds, promise) in NEEDED.items():
        found = check(bounds, rule, [promise])
        print(f"without {rule!r}: {found.violated or f'{promise} holds'}", flush=True)
        failed |= not found.violated
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
