"""The state of a node, as plain data that is sent between processes."""

from __future__ import annotations

import msgspec


class SnapshotStart(msgspec.Struct, frozen=True, kw_only=True):
    """The loading of a snapshot when a node starts."""

    id: str = ""  # the snapshot that is being loaded, or was; empty: none
    loaded: bool = False  # loading is complete
    offset: int = 0  # the log is read from here
    rows: int = 0
    rows_done: int = 0
    bytes: int = 0  # of its files
    bytes_done: int = 0
    took_s: float = 0.0
    eta_s: float | None = None  # seconds until it is loaded; ``None``: unknown
    refused: list[str] = []  # the snapshots that were rejected, with reasons, in the order of the attempts


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The state of a node at one moment. Offsets count records: the offset of the next one."""

    role: str  # ``primary``, ``secondary`` or ``following`` (no primary is known yet)
    epoch: int  # the latest epoch in the rows; -1: none
    applied: int  # the store holds the log up to this offset, exclusively
    end: int  # the offset of the log's next record
    digest: str  # of all rows at ``applied``, in hexadecimal
    started: bool  # the log was read to its end once since the start
    ready: bool
    reasons: list[str]  # why the node is not ready
    records_per_s: float = 0.0  # rate of catching up
    eta_s: float | None = None  # seconds until the log's end is reached at that rate; ``None``: unknown
    quarantined: int = 0  # records that could not be read
    log: str = ""  # identity of the log
    node: str = ""  # id of this node
    primary: str = ""  # URL of the primary, which may be this node; empty: unknown
    newest_snapshot: str = ""  # id of the newest snapshot of this log that is ready; empty: unknown
    election: str = ""  # why there is no primary, or why this node does not write yet; empty: no problem
    metadata_encoder: str = ""  # why sensitive metadata cannot be decrypted or written; empty: no problem
    start: SnapshotStart | None = None  # set if the node started from a snapshot, or tried to
