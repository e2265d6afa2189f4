"""The cluster as one node knows it: its own report, those of the other nodes, and the primaries so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from registry import VERSION
from registry.api.backend import ClusterStatus, NodeReport, Primacy
from registry.log.embedded.log import now_ms

from .leadership.role import NO_EPOCH
from .node import Node
from .status import reaches_log, status

if TYPE_CHECKING:
    from registry.forwarding.reports import Report

PRIMACIES_MAX: Final = 20

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NodeReport).decode


class Primacies:
    """The newest primaries that a node has seen since it started, each from its election on."""

    def __init__(self) -> None:
        self._seen: deque[Primacy] = deque(maxlen=PRIMACIES_MAX)

    def note(self, node: str, url: str, epoch: int, now_ms: int) -> None:
        """Note the current primary; ``epoch`` may be an earlier one until it has claimed the log."""
        last = self._seen[-1] if self._seen else None
        if last is None or (last.node, last.url) != (node, url):
            known = epoch if last is None or epoch > last.epoch else NO_EPOCH
            self._seen.append(Primacy(now_ms, node, url, known))
        elif epoch > max((each.epoch for each in self._seen), default=NO_EPOCH):
            if last.epoch == NO_EPOCH:
                self._seen[-1] = msgspec.structs.replace(last, epoch=epoch)
            else:  # elected again
                self._seen.append(Primacy(now_ms, node, url, epoch))

    def in_order(self) -> list[Primacy]:
        """Return them, the oldest first."""
        return list(self._seen)


class ClusterView:
    """Describes the cluster from one node; used on its event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # Returns the reports of the other nodes; set where peers are served.
        self.others: Callable[[], Iterable[Report]] = tuple
        node.node_with_log = self._node_with_log
        self._started_ms = now_ms()
        self._primacies = Primacies()
        node.when_role_changes(self._role_changed)
        self._role_changed()

    def report(self) -> NodeReport:
        """Return the report of this node for its peers."""
        node, state = self._node, status(self._node)
        sizes, writer, answered = node.store.stat(), node.writer.stat(), node.processes.sum_answered()
        return NodeReport(
            node=state.node, url=node.identity.url, version=VERSION, started_ms=self._started_ms,
            role=state.role, epoch=state.epoch, applied=state.applied, end=state.end, digest=state.digest,
            ready=state.ready, reasons=state.reasons, ready_for_writes=state.ready_for_writes,
            reasons_for_writes=state.reasons_for_writes, log_error=node.following.log_error,
            invalid_files=state.invalid_files, quarantined=state.quarantined,
            store_rows=sizes.rows, store_bytes=sizes.bytes_used, store_map_bytes=sizes.map_bytes,
            requests=answered.requests, failed=answered.failed, request_s=answered.seconds,
            writes=writer.commands, waiting=writer.waiting, primacies=self._primacies.in_order(),
        )  # fmt: skip

    def pack(self) -> bytes:
        """Return the report as other nodes get it."""
        return _encode(self.report())

    def status(self) -> ClusterStatus:
        """Return the cluster as this node knows it, without asking any other."""
        state, mine = status(self._node), self.report()
        nodes = [mine, *_newest(self._all_reports(), besides=mine)]
        return ClusterStatus(
            node=mine.node,
            primary=state.primary,
            problem=state.election,
            # The node that runs longest has seen most.
            primacies=max((each.primacies for each in nodes), key=len),
            nodes=sorted(
                (replace(each, primacies=[]) for each in nodes), key=lambda each: (each.url, each.node)
            ),
        )

    def _all_reports(self) -> Iterable[NodeReport]:
        return filter(None, map(_read, self.others()))

    def _node_with_log(self) -> str:
        return reaches_log(self._all_reports(), self._node.following.log_missing_s)

    def _role_changed(self) -> None:
        primary = self._node.primary
        if primary is not None:
            self._primacies.note(primary.node, primary.url, status(self._node).epoch, now_ms())


def _read(report: Report) -> NodeReport | None:
    try:
        return replace(_decode(report.body), age_s=round(report.age_s, 1))
    except msgspec.DecodeError:
        return None  # of another version


def _newest(reports: Iterable[NodeReport], *, besides: NodeReport) -> Iterable[NodeReport]:
    """Return one report for each URL, because a node with a new data folder has a new id."""
    found: dict[str, NodeReport] = {}
    for each in reports:
        known = found.get(each.url)
        if each.url != besides.url and (known is None or each.age_s < known.age_s):
            found[each.url] = each
    return found.values()
