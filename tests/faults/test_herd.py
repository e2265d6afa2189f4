"""The first minute of an incident: many cold clients at once, through TLS, with half of the nodes gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import uvloop

from bench.herd import measure, send_herd, site
from deploy.local.broker import Broker
from deploy.local.process import freeze
from tests.support.running import children_of

CLIENTS, IDS = 300, 100
# Only something that hangs takes this long.
LIMIT_S = 120.0


# In make test, tests/process/node/test_read_barrier.py holds that all that wait share a question.
@pytest.mark.long
def test_a_herd_of_cold_clients_is_served_by_the_remaining_node_without_asking_kafka_or_its_node_for_each(
    broker: Broker, tmp_path: Path
) -> None:
    flags = ("--topic", "herd", "--group", "herd", "--readers", "1", "--peer-secret", "a secret of this test")
    with site(tmp_path, broker, *flags) as made:
        found = measure(made, CLIENTS, IDS, limit_s=LIMIT_S)
        assert (found["served"], found["errors"], found["warned"]) == (CLIENTS, {}, 0), found
        assert found["refused_first"], found
        # What the node asks on its own account is among them.
        assert found["queries_of_log_end"] <= IDS, found
        # Nor do the others need an answer of Kafka, or of the process that their reader would ask first.
        children = children_of(made.nodes[1].pid)
        node = next(pid for pid, name in children.items() if name == "registry-node")
        broker.proxies[1].cut()
        freeze(node)
        try:
            ids = [*range(1, IDS + 1)]
            cut_off = uvloop.run(send_herd([made.nodes[1].port], made.login, ids, IDS, limit_s=LIMIT_S))
        finally:
            os.kill(node, signal.SIGCONT)
            broker.proxies[1].heal()
        assert (len(cut_off.seconds), cut_off.errors, cut_off.warned) == (IDS, {}, 0)
