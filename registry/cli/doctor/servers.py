"""Examination of running nodes by what they answer."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry.cli.doctor import Finding, error, fine, unknown, warning

_LAG_RECORDS: Final = 1000
_OUTAGE: Final = (
    "reads are served meanwhile; start what cannot be reached, or correct the network; "
    'without a URL, "registrar doctor" examines Kafka with the settings of a node'
)
_ELECTION: Final = "see docs/troubleshooting.md, Writes wait or fail, reads work"
_SOON: Final = dt.timedelta(days=30)


class Seen(NamedTuple):
    """The answers of one server."""

    url: str
    # The answer of ``/node``; None if there was none.
    node: Mapping[str, Any] | None = None
    # Why there was no answer.
    failure: str = ""
    # True if there was no answer because credentials are missing, or because it is another registry.
    is_up: bool = False
    version: str = ""
    # The entries of ``/quarantine``, with versions whose ids clash; ``None`` if it was not answered.
    quarantine: Sequence[Mapping[str, Any]] | None = None
    certificate_ends: dt.datetime | None = None


def at_one_offset(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Return true if all nodes were asked at the same offset, so that their digests can be compared."""
    return len({node.get("applied") for node in nodes}) <= 1


def examine_servers(servers: Sequence[Seen], now: dt.datetime) -> Iterator[Finding]:
    """Yield what is found in the answers, of each server and between them."""
    for seen in servers:
        yield from _certificate(seen, now)
        if seen.node is None and seen.is_up:
            yield unknown(seen.url, f"it does not report the state of its node: {seen.failure}")
        elif seen.node is None:
            yield error(seen.url, seen.failure)
        else:
            yield from _node(seen, seen.node)
    nodes = [(seen, seen.node) for seen in servers if seen.node is not None]
    if nodes:
        yield from _together(nodes)


def _certificate(seen: Seen, now: dt.datetime) -> Iterator[Finding]:
    ends = seen.certificate_ends
    if ends is None:
        return
    text = f"its certificate {'expires' if ends > now else 'expired'} on {ends:%Y-%m-%d}"
    if ends - now < _SOON:
        level = warning if ends > now else error
        yield level(seen.url, text, "renew it; nodes read changed files again within seconds")
    else:
        yield fine(seen.url, text)


def _node(seen: Seen, node: Mapping[str, Any]) -> Iterator[Finding]:
    url = seen.url
    if not node.get("ready"):
        reasons = "; ".join(map(str, node.get("reasons") or ())) or "it does not say why"
        yield error(url, f"it is not ready: {reasons}", "see docs/troubleshooting.md")
    elif node.get("ready_for_writes") is False:
        reasons = "; ".join(map(str, node.get("reasons_for_writes") or ()))
        yield error(url, f"it is ready, but not for writes: {reasons}", _OUTAGE)
    else:
        yield fine(url, f"it is ready, as {node.get('role')}, at offset {node.get('applied')}")
    lag = int(node.get("end", 0)) - int(node.get("applied", 0))
    if node.get("started") and lag > _LAG_RECORDS:
        yield warning(url, f"it is {lag} records behind the end of the log", "check its load and its disk")
    if node.get("election"):
        yield error(url, f"the election: {node['election']}", _ELECTION)
    for problem in node.get("peer_problems") or ():
        yield error(
            url,
            f"other nodes: {problem}",
            "writes through a refused node fail: see docs/secrets.md for peer_secret",
        )
    if node.get("metadata_encoder"):
        yield error(url, f"sensitive metadata: {node['metadata_encoder']}")
    for text in node.get("warnings") or ():
        yield warning(url, str(text))


def _together(nodes: Sequence[tuple[Seen, Mapping[str, Any]]]) -> Iterator[Finding]:
    yield from _primaries(nodes)
    yield from _same(nodes, "log", "the nodes follow different logs", "check kafka and topic of each node")
    yield from _digests(nodes)
    yield from _copies(nodes)
    versions = _by({seen.url: seen.version for seen, _ in nodes if seen.version})
    if len(versions) > 1:
        yield warning("nodes", f"the nodes have different versions: {_join(versions)}", "upgrade the others")
    yield from _quarantine(nodes)


def _primaries(nodes: Sequence[tuple[Seen, Mapping[str, Any]]]) -> Iterator[Finding]:
    primaries = [seen.url for seen, node in nodes if node.get("role") == "primary"]
    named = _by({seen.url: str(node.get("primary")) for seen, node in nodes if node.get("primary")})
    ids = {str(node.get("node")) for _, node in nodes if node.get("role") == "primary"}
    if len(ids) > 1:
        yield error(
            "nodes",
            f"several nodes are primary: {', '.join(primaries)}",
            "run this again: this is normal during an election; otherwise check that they share a group",
        )
    elif len(named) > 1:
        yield error("nodes", f"the nodes name different primaries: {_join(named)}", "run this again")
    elif not named and not primaries:
        yield error("nodes", "no node knows a primary, so writes wait", "see election in /node of each node")
    else:
        yield fine("nodes", f"the primary is {next(iter(named), '') or primaries[0]}")


def _same(
    nodes: Sequence[tuple[Seen, Mapping[str, Any]]], member: str, text: str, advice: str
) -> Iterator[Finding]:
    found = _by({seen.url: str(node.get(member)) for seen, node in nodes})
    if len(found) > 1:
        yield error("nodes", f"{text}: {_join(found)}", advice)


def _digests(nodes: Sequence[tuple[Seen, Mapping[str, Any]]]) -> Iterator[Finding]:
    at: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for seen, node in nodes:
        at[int(node.get("applied", 0)), str(node.get("log"))][seen.url] = str(node.get("digest"))
    for (offset, _), digests in at.items():
        found = _by(digests)
        if len(found) > 1:
            yield error(
                "nodes",
                f"the stores differ at offset {offset}: {_join(found)}",
                "stop the node that differs from the others, delete the folder store in its data folder, and "
                "start it again",
            )
        elif len(digests) > 1:
            yield fine("nodes", f"{len(digests)} stores are equal at offset {offset}")
    logs = {log for _, log in at}
    if len(nodes) > len(logs) and all(len(each) == 1 for each in at.values()):
        yield unknown(
            "nodes", "the stores could not be compared: they were never at one offset", "run this again"
        )


def _copies(nodes: Sequence[tuple[Seen, Mapping[str, Any]]]) -> Iterator[Finding]:
    urls: dict[str, list[str]] = defaultdict(list)
    for seen, node in nodes:
        if node.get("node"):
            urls[str(node["node"])].append(seen.url)
    for name, several in urls.items():
        if len(several) > 1:
            yield warning(
                "nodes",
                f"{' and '.join(several)} have the same node id {name}",
                "if they are two nodes, one data folder is a copy of the other: delete the file node-id in "
                "one of them; if they are one, name it once",
            )


def _quarantine(nodes: Sequence[tuple[Seen, Mapping[str, Any]]]) -> Iterator[Finding]:
    answers = [seen.quarantine for seen, _ in nodes if seen.quarantine is not None]
    entries = max(answers, key=len, default=())
    clashes = [each for each in entries if "stands for another content" in str(each.get("reason"))]
    unread = len(entries) - len(clashes) or max(int(node.get("quarantined", 0)) for _, node in nodes)
    if unread:
        yield warning(
            "log",
            f"{unread} records could not be interpreted",
            "see GET /quarantine; other programs wrote them",
        )
    if clashes:
        yield warning(
            "log",
            f"{len(clashes)} versions have an id that stands for another content too, such as "
            f"{clashes[0].get('key')}: {clashes[0].get('reason')}",
            "see GET /quarantine?clashes=true; register one of them again with a new id",
        )
    if not answers and not unread:
        yield unknown(
            "log", "no node says which records are quarantined and which ids clash", "run this again later"
        )
    elif not entries and not unread:
        yield fine("log", "no record is quarantined, and no ids clash")


def _by(found: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the URLs by what they say."""
    turned: dict[str, list[str]] = defaultdict(list)
    for url, value in found.items():
        turned[value].append(url)
    return dict(turned)


def _join(found: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{value} ({', '.join(urls)})" for value, urls in found.items())
