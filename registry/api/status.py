"""What a node says about itself, as plain data that travels between processes."""

from __future__ import annotations

import msgspec


class SnapshotStart(msgspec.Struct, frozen=True, kw_only=True):
    """What a node that starts has to do with snapshots."""

    id: str = ""
    """The snapshot that is loaded, or was; empty when none was."""
    loaded: bool = False
    """Whether it was."""
    offset: int = 0
    """The log is read from there on."""
    rows: int = 0
    rows_done: int = 0
    bytes: int = 0
    """Of its files."""
    bytes_done: int = 0
    took_s: float = 0.0
    eta_s: float | None = None
    """Seconds until it is loaded; ``None`` when unknown."""
    refused: list[str] = []
    """Those that were not used, each with the reason, in the order in which they were tried."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The state of a node at one moment. Offsets count records: the offset of the next one."""

    role: str
    """``primary``, ``secondary`` or ``following`` (no primary is known yet)."""
    epoch: int
    """The number of the newest primaryship that the rows know of; -1 when there was none."""
    applied: int
    """The offset up to which, exclusively, the store holds the log."""
    end: int
    """The offset that the log's next record will get."""
    digest: str
    """The digest of all rows at ``applied``, in hexadecimal."""
    started: bool
    """Whether the log was read up to its end once since the start."""
    ready: bool
    reasons: list[str]
    """Why the node is not ready; empty when it is."""
    records_per_s: float = 0.0
    """Pace of the fold while it catches up."""
    eta_s: float | None = None
    """Seconds until the log's end is reached at that pace; ``None`` when unknown."""
    quarantined: int = 0
    """Records that could not be read."""
    log: str = ""
    """The identity of the log."""
    node: str = ""
    """The id of this node."""
    primary: str = ""
    """The URL of the primary, which may be this node; empty while none is known."""
    newest_snapshot: str = ""
    """The id of the newest snapshot of this log that is ready, as last seen; empty while none is known."""
    election: str = ""
    """Why there is no primary, or why this node does not write yet; empty when all is well."""
    metadata_encoder: str = ""
    """Why sensitive metadata cannot be decrypted or written; empty when all is well."""
    start: SnapshotStart | None = None
    """How the node came to its rows, where snapshots had to do with it."""
