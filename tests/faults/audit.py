"""Completeness of the audit logs of a cluster, by the history of its clients."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from .history import WRITES, Kind, Request


def recorded(path: Path) -> Counter[str]:
    """Return how often each request is in an audit log as done."""
    entries = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    return Counter(each["request_id"] for each in entries if each.get("outcome") == "done")


def unrecorded(requests: Sequence[Request], logs: Sequence[Counter[str]]) -> Iterator[str]:
    """Yield acknowledged writes that are not exactly once in the logs, in that of the node that answered.

    ``logs`` has one for each node. A registration is not recorded if an earlier one, whose outcome was
    unknown, had stored its schema.
    """
    uncertain = {(each.subject, each.schema) for each in requests if each.schema and each.uncertain}
    for write in requests:
        if write.kind not in WRITES or not write.done:
            continue
        found = [log[write.request_id] for log in logs]
        expected = [int(number == write.node) for number in range(len(logs))]
        is_repeated = write.kind is Kind.REGISTER and (write.subject, write.schema) in uncertain
        if found != expected and not (is_repeated and not any(found)):
            yield f"{write.kind.value} of {write.subject} by node {write.node}: recorded {found} times"
