"""The status of a node, when it is ready, and the cluster as the node knows it.

A node that has read its log once stays ready while only the log is missing, because it still answers what it
holds. It is not ready if another node reaches the log meanwhile: requests go there. A node that has not
reached the log since its start is not ready either, so that a rolling update with a wrong address or password
of Kafka stops at its first node.

The cluster is this node's own report, those of the other nodes, and the primaries so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from registry import VERSION
from registry.api.backend import ClusterStatus, NodeReport, NodeStatus, Primacy, SearchState
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog, now_ms

from .leadership.role import NO_EPOCH, Stage
from .node import Node
from .replication.follower import Progress

if TYPE_CHECKING:
    from registry.forwarding.reports import Report
    from registry.search.filler import IndexFiller

# Nodes notice within this time, in seconds, that a log has become unavailable to all of them.
NOTICED_S: Final = 10.0
# A report that is older than this, in seconds, says nothing about the log now.
RECENT_S: Final = 10.0
PRIMACIES_MAX: Final = 20

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NodeReport).decode


class Situation(NamedTuple):
    """The facts that decide if a node is ready; texts are reasons, and empty without any."""

    starting: str = ""  # the log has not been read to its end since the start
    store: str = ""  # the store cannot be written, or is not the log's
    log: str = ""  # the log cannot be reached
    better: str = ""  # the log cannot be reached from here, but from another node
    rejected: str = ""  # the election rejects this node
    no_writes: str = ""  # the log takes no records, or there is no primary within reach


class Readiness(NamedTuple):
    """Why a node should get no requests, and why it would fail writes; empty if it is ready."""

    traffic: list[str]
    writes: list[str]


def readiness(situation: Situation) -> Readiness:
    """Return both kinds of readiness; what is not ready for traffic is not ready for writes either."""
    at = situation
    unserved = at.log if at.starting else at.better
    traffic = [each for each in ("" if at.log else at.starting, at.store, unserved, at.rejected) if each]
    more = ("" if unserved else at.log, at.no_writes)
    return Readiness(traffic, [*traffic, *(each for each in more if each and each not in traffic)])


def reaches_log(others: Iterable[NodeReport], missing_s: float) -> str:
    """Return the URL of another node that reaches the log, which this node has missed for ``missing_s``.

    Empty if no recent report says so. A report counts only if it was made when the other node would have
    noticed that nobody reaches the log.
    """
    return next(
        (
            each.url
            for each in others
            if each.ready and not each.log_error
            if each.age_s <= min(RECENT_S, missing_s - NOTICED_S)
        ),
        "",
    )


def status(node: Node) -> NodeStatus:
    """Return the current status of the node."""
    progress = node.follower.progress()
    state = node.store.state
    role = node.candidate.role_holder.role
    primary, cannot_lead = node.primary, node.candidate.cannot_lead
    newest = node.snapshots.entries.newest()
    ready = readiness(_situation(node, progress))
    return NodeStatus(
        role=role.name,
        epoch=role.epoch if role.stage is Stage.PRIMARY else role.seen,
        applied=state.applied,
        end=max(progress.end, state.applied),
        digest=digest.text(state.digest),
        started=node.readable,
        ready=not ready.traffic,
        reasons=ready.traffic,
        ready_for_writes=not ready.writes,
        reasons_for_writes=ready.writes,
        records_per_s=progress.records_per_s,
        eta_s=progress.eta_s,
        quarantined=node.maintenance.quarantined_count(),
        log=node.log.identity,
        node=node.identity.node,
        primary="" if primary is None else primary.url,
        newest_snapshot="" if newest is None else newest.id,
        election=role.reason and (cannot_lead or role.reason),
        cannot_lead=cannot_lead,
        metadata_encoder=node.encoder_error(),
        peer_problems=node.peer_problems(),
        start=None if node.starting is None else node.starting.snapshot,
        invalid_files=[] if node.files is None else node.files.problems(),
        history_from=node.maintenance.history_from(),
        search=_search(node.search),
    )


def _search(filler: IndexFiller | None) -> SearchState | None:
    if filler is None:
        return None
    found = filler.progress
    return SearchState(round(found.part_built, 2), found.subjects, found.offset, filler.problem)


def _situation(node: Node, progress: Progress) -> Situation:
    role, following = node.candidate.role_holder.role, node.following
    starting = ""
    if not node.is_started:
        left = "unknown" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
        starting = f"reading the log: {progress.applied} of {progress.end} records, remaining: {left}"
    store = following.store_error or following.foreign
    if node.store.read_only:
        store = f"the store {node.store.path} is of a former release and is rebuilt from its log"
    log_error = "" if following.foreign else following.log_error
    better = node.node_with_log() if log_error else ""
    return Situation(
        starting=starting,
        store=store,
        log=log_error,
        better=better and f"{log_error}; {better} reaches the log",
        rejected=role.reason if role.refused else "",
        no_writes=_no_writes(node),
    )


def _no_writes(node: Node) -> str:
    """Return why the embedded log takes no records, or no primary can be reached; empty if all is well."""
    if isinstance(node.log, EmbeddedLog):
        return node.log.last_error
    return node.candidate.role_holder.role.reason or node.primary_unreachable()


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
                self._seen[-1] = replace(last, epoch=epoch)
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
        state, mine, snapshots = status(self._node), self.report(), self._node.snapshots.entries
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
            snapshot_ms=snapshots.requested_ms("ready"),
            failed_snapshot_ms=snapshots.requested_ms("failed"),
        )

    def url_of(self, node: str) -> str:
        """Return the URL of another node, by its id; the id itself if it is unknown."""
        return next((each.url for each in self._all_reports() if each.node == node), node)

    def without_answer(self, answers: Mapping[str, object | None]) -> dict[str, str]:
        """Return the nodes whose answer is ``None``, with their URLs.

        A node with a new data folder has another id. All nodes, even that node itself, know its former id for
        some time; nothing answers to it.
        """
        answered = {self.url_of(node) for node, answer in answers.items() if answer is not None}
        answered.add(self._node.identity.url)
        silent = {node: self.url_of(node) for node, answer in answers.items() if answer is None}
        return {node: url for node, url in silent.items() if url not in answered}

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
