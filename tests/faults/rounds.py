"""Rounds of random faults: a seed determines the faults and their times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tests.support.running import until

from .rig import HEAL_S, FaultyNode, Rig, Run

DAY_S = 86_400.0
REQUESTS_BETWEEN = 80
# The maximum duration of a fault that blocks the load: longer than a session.
FAULT_S_MAX = 10.0


@dataclass(frozen=True)
class Soak:
    """The extent of randomness."""

    rounds: int
    # The number of faults in each round.
    faults: int
    # The seed of the first round; each further round adds one.
    seed: int
    # Seconds of load without faults.
    minutes: float


class Round:
    """Some faults, one after another or at once, each healed in the end."""

    def __init__(self, rig: Rig, made: Run, seed: int) -> None:
        self._rig = rig
        self._made = made
        self._chance = random.Random(seed)
        self._heal = ExitStack()
        # The faults that were injected.
        self.told: list[str] = []

    def run(self, faults: int) -> None:
        """Inject this many faults; return when all is healed."""
        kinds: list[Callable[[FaultyNode], None]] = [
            self._kill, self._freeze, self._cut_off_from_broker, self._cut_off_from_peers, self._restart,
            self._kill_all, self._restart_broker, self._move_clock,
            self._fill_disk, self._fill_disk_of_primary,
        ]  # fmt: skip
        for _ in range(faults):
            node, fault = self._pick(), self._chance.choice(kinds)
            self.told.append(f"{fault.__name__.strip('_')} {self._rig.nodes.index(node)}")
            fault(node)
            self._load_goes_on()
            if self._chance.random() < 0.7:  # Otherwise the next fault comes on top.
                self._heal.close()
                self._rig.primary()
        self._heal.close()
        for number, node in enumerate(self._rig.nodes):
            until(lambda node=node: self._is_up(node), HEAL_S, f"node {number} to be ready again")

    def _is_up(self, node: FaultyNode) -> bool:
        """Return true if it is ready; start it again if it ended because its disk was full."""
        self._start(node)
        return node.ready()

    def _pick(self) -> FaultyNode:
        """Return the primary, if there is one and it is chosen at random."""
        primary = self._primary()
        wanted, anyone = self._chance.random() < 0.6, self._chance.choice(self._rig.nodes)
        return primary if primary is not None and wanted else anyone

    def _primary(self) -> FaultyNode | None:
        return next((node for node in self._rig.nodes if node.running and node.role == "primary"), None)

    def _load_goes_on(self) -> None:
        """Return after some more requests, or some time without them."""
        requests = self._made.history.requests
        seen, ends_at = len(requests), time.monotonic() + FAULT_S_MAX
        until(
            lambda: len(requests) > seen + REQUESTS_BETWEEN or time.monotonic() > ends_at,
            HEAL_S,
            "requests to go on",
        )

    def _start(self, node: FaultyNode) -> None:
        if not node.running:
            node.start()

    def _kill(self, node: FaultyNode) -> None:
        node.kill()
        self._heal.callback(self._start, node)

    def _kill_all(self, _: FaultyNode) -> None:
        for node in self._rig.nodes:
            self._kill(node)
        self._heal.close()

    def _restart(self, node: FaultyNode) -> None:
        if node.running:
            node.stop()
        self._start(node)

    def _freeze(self, node: FaultyNode) -> None:
        node.freeze()
        self._heal.callback(node.thaw)

    def _cut_off_from_broker(self, node: FaultyNode) -> None:
        assert self._rig.broker is not None
        line = self._rig.broker.proxies[self._rig.nodes.index(node)]
        line.cut()
        self._heal.callback(line.heal)

    def _cut_off_from_peers(self, node: FaultyNode) -> None:
        node.peers.cut()
        self._heal.callback(node.peers.heal)

    def _restart_broker(self, _: FaultyNode) -> None:
        assert self._rig.broker is not None
        self._rig.broker.kill()
        self._rig.broker.start().wait()

    def _move_clock(self, node: FaultyNode) -> None:
        node.shift_clock(self._chance.choice((-3, 12)) * DAY_S * self._chance.random())
        self._heal.callback(node.shift_clock, 0.0)

    def _fill_disk(self, node: FaultyNode) -> None:
        if node.running:
            node.fill_disk()
            self._heal.callback(node.free_disk)

    def _fill_disk_of_primary(self, node: FaultyNode) -> None:
        self._fill_disk(self._primary() or node)
