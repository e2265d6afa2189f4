"""The brokers' Kafka release, and the features that are missing there.

Brokers announce which versions of which requests they support (ApiVersions), not their release. Managed
services and forks mix requests of several releases, so features are judged by the requests themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from .structs import FetchRequestV13, ProduceRequestV13

# API keys, each with its oldest and newest supported version.
ApiVersions = Mapping[int, tuple[int, int]]


class Api(IntEnum):
    """API keys that distinguish releases."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    JOIN_GROUP = 11
    ADD_PARTITIONS_TO_TXN = 24
    DESCRIBE_ACLS = 29
    # Only in KRaft mode, since that is ready for production (3.3).
    DESCRIBE_QUORUM = 55


# The request version that each release introduced. 3.4 introduced none.
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


def describe(brokers: Iterable[ApiVersions], assumed: str = "") -> str:
    """Return one line for the log: the brokers' release, what is missing there, and what is ``assumed``."""
    api_versions = _common(list(brokers))
    if not api_versions:
        return "the Kafka brokers' release is unknown: none of them is connected"
    keeper = "KRaft" if with_kraft(api_versions) else "ZooKeeper"
    missing = "; ".join([*_missing(api_versions), *filter(None, [assumed])]) or "nothing is missing"
    return f"the Kafka brokers offer what {_release(api_versions)} does, with {keeper}: {missing}"


def with_kraft(api_versions: ApiVersions) -> bool:
    """Return True if a broker is known to run in KRaft mode, without ZooKeeper."""
    return Api.DESCRIBE_QUORUM in api_versions


def _common(brokers: Sequence[ApiVersions]) -> ApiVersions:
    """Return the versions that all brokers support: during an upgrade, those of the older ones."""
    if not brokers:
        return {}
    first, *others = brokers
    return {
        api: (max(each[api][0] for each in (first, *others)), min(each[api][1] for each in (first, *others)))
        for api in first
        if all(api in each for each in others)
    }


def _release(api_versions: ApiVersions) -> str:
    """Return the newest release such that the brokers support what it and all earlier ones introduced."""
    newest = _OLDER
    for release, api, version in _RELEASES:
        # Newer brokers may have dropped the version itself.
        if _newest(api_versions, api) < version:
            break
        newest = f"Kafka {release}"
    return newest


def _newest(api_versions: ApiVersions, api: int) -> int:
    return api_versions.get(api, _NOT_OFFERED)[1]


def _takes(api_versions: ApiVersions, api: int, version: int) -> bool:
    oldest, newest = api_versions.get(api, _NOT_OFFERED)
    return oldest <= version <= newest


def _missing(api_versions: ApiVersions) -> Iterator[str]:
    by_name = [
        f"{what} (Kafka {since})"
        for what, since, request in (
            ("reads", "3.1", FetchRequestV13),
            ("appends", "4.1", ProduceRequestV13),
        )
        if not _takes(api_versions, request.API_KEY, request.API_VERSION)
    ]
    if by_name:
        yield (
            f"no topic ids in {' and '.join(by_name)}, so a topic that is deleted and created again is "
            "noticed after some seconds, and a write may go into the new one before that"
        )
    if not with_kraft(api_versions):
        yield (
            "a leader epoch may be in use before brokers announce it (KRaft), so each broker that confirms "
            "the log's end is asked twice"
        )
    if _newest(api_versions, Api.PRODUCE) < ProduceRequestV13.API_VERSION:
        # Seen with 2.8, 3.3 and 3.9; 4.1 raises it.
        yield (
            "a single broker may keep its leader epoch over a restart (Kafka 4.1), so lost records are "
            "detected only by comparing records"
        )
