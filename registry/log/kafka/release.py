"""The Kafka release that the brokers keep up with, and what is missing or assumed below the newest.

Brokers tell which versions of which requests they take (ApiVersions), not which release they are of. Managed
services and forks offer requests of several releases, so what is missing is told by the requests themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from .structs import FetchRequestV13, ProduceRequestV13

# Kinds of requests, each with its oldest and newest version.
Offered = Mapping[int, tuple[int, int]]


class Api(IntEnum):
    """Kinds of requests by which releases are told apart."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    JOIN_GROUP = 11
    ADD_PARTITIONS_TO_TXN = 24
    DESCRIBE_ACLS = 29
    # Offered by brokers with KRaft alone, since that is fit for production (3.3).
    DESCRIBE_QUORUM = 55


# The request, and its version, that each release was the first to take. 3.4 brought none.
_RELEASES = (
    ("2.8", Api.PRODUCE, 9),
    ("3.0", Api.LIST_OFFSETS, 7),
    ("3.1", Api.FETCH, 13),
    ("3.2", Api.JOIN_GROUP, 9),
    ("3.3 or 3.4", Api.DESCRIBE_ACLS, 3),
    ("3.5", Api.FETCH, 15),
    ("3.6", Api.ADD_PARTITIONS_TO_TXN, 4),
    ("3.7", Api.FETCH, 16),
    ("3.8", Api.PRODUCE, 11),
    ("3.9", Api.FETCH, 17),
    ("4.0", Api.PRODUCE, 12),
    ("4.1 or newer", Api.PRODUCE, 13),
)
_NOT_OFFERED = (0, -1)
_OLDER = "an older release than 2.8"


def described(brokers: Iterable[Offered], assumed: str = "") -> str:
    """Return one line for people: the brokers' release, and what is missing there, or ``assumed``."""
    offered = _common(list(brokers))
    if not offered:
        return "the Kafka brokers' release is not known: none of them is connected"
    keeper = "KRaft" if with_kraft(offered) else "ZooKeeper"
    missing = "; ".join([*_missing(offered), *filter(None, [assumed])]) or "nothing is missing"
    return f"the Kafka brokers offer what {_release(offered)} does, with {keeper}: {missing}"


def with_kraft(offered: Offered) -> bool:
    """Return True if a broker is known to be without ZooKeeper."""
    return Api.DESCRIBE_QUORUM in offered


def _common(brokers: Sequence[Offered]) -> Offered:
    """Return what all brokers offer: while they are upgraded, the older ones count."""
    if not brokers:
        return {}
    first, *others = brokers
    return {
        api: (max(each[api][0] for each in (first, *others)), min(each[api][1] for each in (first, *others)))
        for api in first
        if all(api in each for each in others)
    }


def _release(offered: Offered) -> str:
    """Return the newest release of which, and of all before which, there is all that is looked at."""
    newest = _OLDER
    for release, api, version in _RELEASES:
        # They may have given up the version since.
        if _newest(offered, api) < version:
            break
        newest = f"Kafka {release}"
    return newest


def _newest(offered: Offered, api: int) -> int:
    return offered.get(api, _NOT_OFFERED)[1]


def _takes(offered: Offered, api: int, version: int) -> bool:
    oldest, newest = offered.get(api, _NOT_OFFERED)
    return oldest <= version <= newest


def _missing(offered: Offered) -> Iterator[str]:
    by_name = [
        f"{what} (Kafka {since})"
        for what, since, request in (
            ("reads", "3.1", FetchRequestV13),
            ("appends", "4.1", ProduceRequestV13),
        )
        if not _takes(offered, request.API_KEY, request.API_VERSION)
    ]
    if by_name:
        yield (
            f"no topic ids in {' and '.join(by_name)}, so a topic that is deleted and created again is "
            "noticed after some seconds, and a write may go into the new one before that"
        )
    if not with_kraft(offered):
        yield (
            "a leader epoch may count before brokers name it (KRaft), so each that confirms the log's end is "
            "asked twice"
        )
    if _newest(offered, Api.PRODUCE) < ProduceRequestV13.API_VERSION:
        # Seen with 2.8, 3.3 and 3.9; 4.1 raises it.
        yield (
            "a single broker may keep its leader epoch over a restart (Kafka 4.1), so lost records are found "
            "by comparing records alone"
        )
