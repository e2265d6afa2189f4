"""Resources about the server: Confluent's metadata, health, the node's state, quarantined records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from registry.domain import errors as e
from registry.domain.log_format.records import schema_key
from registry.domain.lookup.duplicates import id_conflicts
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import in_order
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .answers import Answer, Header, json_answer
from .backend import Backend
from .listing import Listing, Mark
from .node_queries import CLUSTER
from .operations import Call, Freshness, NodeHandler, Operation, RowHandler
from .paging import page
from .parameters import PAGE, flag, word
from .permissions import ADMINS, OPEN

_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
_PURPOSES = ("traffic", "writes")
QUARANTINE_MAX = 10_000
Unread = dict[str, Any]  # offset, time, reason and key of a record


def root(call: Call, view: View) -> Answer:
    """``GET /`` and ``POST /``: an empty object."""
    return Answer(b"{}")


async def cluster_id(call: Call, backend: Backend) -> Answer:
    """``GET /v1/metadata/id``."""
    kafka = (await backend.status()).log
    clusters = {"kafka-cluster": kafka, "schema-registry-cluster": call.settings.cluster_id}
    return json_answer({"scope": {"path": [], "clusters": clusters}})


def version(call: Call, view: View) -> Answer:
    """``GET /v1/metadata/version``."""
    return json_answer({"version": call.settings.version, "commitId": call.settings.commit})


def deployment(call: Call, view: View) -> Answer:
    """``GET /v1/metadata/deployment``."""
    return Answer(b'{"attributes":[]}')


async def live(call: Call, backend: Backend) -> Answer:
    """``GET /health/live``: always 200."""
    return _health("live", 200, [])


async def answer_started(call: Call, backend: Backend) -> Answer:
    """``GET /health/started``: 503 with the progress until the log has been read to its end once.

    While the log is away, also 200 if the store serves reads.

    If the node starts from a snapshot, the answer says which one, and why others were rejected.
    """
    status = await backend.status()
    more = {"snapshot": msgspec.to_builtins(status.start)} if status.start else {}
    if status.started:
        return _health("started", 200, [], more)
    return _health("starting", 503, status.reasons, {"eta_s": status.eta_s, **more})


async def ready(call: Call, backend: Backend) -> Answer:
    """``GET /health/ready``: 200 if the node should get requests, else 503; with reasons and progress.

    With ``for=writes``: 200 if writes through this node can be carried out.
    """
    purpose = call.args["for"]
    if purpose not in _PURPOSES:
        raise e.UNPROCESSABLE(f"for must be one of {', '.join(_PURPOSES)}")
    status = await backend.status()
    for_writes = purpose == "writes"
    good = status.ready_for_writes if for_writes else status.ready
    word = "ready for writes" if for_writes else "ready"
    progress = {
        **({} if for_writes else {"ready_for_writes": status.ready_for_writes}),
        "applied": status.applied,
        "end": status.end,
        "records_per_s": round(status.records_per_s, 1),
        "eta_s": status.eta_s,
        **({"cannot_lead": status.cannot_lead} if status.cannot_lead else {}),
        **({"peer_problems": status.peer_problems} if status.peer_problems else {}),
    }
    reasons = status.reasons_for_writes if for_writes else status.reasons
    return _health(word if good else f"not {word}", 200 if good else 503, reasons, progress)


def _health(word: str, status: int, reasons: list[str], more: Mapping[str, object] | None = None) -> Answer:
    body = orjson.dumps({"status": word, "reasons": reasons, **(more or {})})
    retry: tuple[Header, ...] = ((b"retry-after", b"1"),) if status == 503 else ()
    return Answer(body, status, (*_NO_STORE, *retry))


async def node(call: Call, backend: Backend) -> Answer:
    """``GET /node``: role, epoch, offsets and digest of this host's node, and warnings about its settings."""
    status = await backend.status()
    warnings = [*call.settings.warnings, *status.invalid_files]
    found = {**msgspec.structs.asdict(status), "warnings": warnings}
    return Answer(msgspec.json.encode(found), headers=_NO_STORE)


async def cluster(call: Call, backend: Backend) -> Answer:
    """``GET /admin/cluster``: all nodes, as this host's node knows them from their reports."""
    found = await backend.ask(CLUSTER, None)
    return Answer(msgspec.json.encode(found), headers=_NO_STORE)


async def karapace_health(call: Call, backend: Backend) -> Answer:
    """``GET /_health``: readiness in Karapace's format, for existing probes; 503 unless ready."""
    status = await backend.status()
    found = {
        "schema_registry_ready": status.ready,
        "schema_registry_reader_current_offset": status.applied - 1,
        "schema_registry_reader_highest_offset": status.end - 1,
        "schema_registry_is_primary": status.role == "primary",
        "schema_registry_primary_url": status.primary or None,
    }
    body = orjson.dumps({"status": found, "healthy": status.ready})
    return Answer(body, 200 if status.ready else 503, _NO_STORE)


async def primary_available(call: Call, backend: Backend) -> Answer:
    """``GET /master_available``: true if a primary is known, in Karapace's format."""
    status = await backend.status()
    found = status.role == "primary" or bool(status.primary)
    return Answer(orjson.dumps({"master_available": found}), headers=_NO_STORE)


def quarantine(call: Call, view: View) -> Listing[Unread]:
    """``GET /quarantine``: the records that could not be read, by offset; at most :data:`QUARANTINE_MAX`.

    ``clashes``: include versions whose id already had another content in their context.
    """
    with_clashes = call.args["clashes"]

    def entries(view: View) -> Iterator[Unread | None]:
        yield from (orjson.loads(value) for _, value in scan(view, layout.QUARANTINE))
        if with_clashes:
            yield from (None if pair is None else _clash(pair) for pair in id_conflicts(view))

    def walk(view: View, mark: Mark | None) -> Iterator[Unread | None]:
        return in_order(lambda: entries(view), _unread_mark, mark, QUARANTINE_MAX)

    listing = page(call, walk, orjson.dumps, _unread_mark, (int, str), limit_max=QUARANTINE_MAX)
    return replace(listing, headers=_NO_STORE)


def _unread_mark(each: Unread) -> Mark:
    return each["offset"], each["reason"]


def _clash(pair: tuple[Registered, Registered]) -> Unread:
    (subject, version, row), first = pair
    of_first = f"subject {first.subject.qualified!r} version {first.version}, offset {first.row.offset}"
    reason = f"the id {row.schema_id} stands for another content already: {of_first}"
    key = schema_key(subject, version).decode()
    return {"offset": row.offset, "ts": row.ts, "reason": reason, "key": key}


def metrics_of(metrics: Callable[[], Awaitable[bytes]]) -> NodeHandler:
    """Return the handler of ``GET /metrics``, whose body ``metrics`` returns."""

    async def metrics_text(call: Call, backend: Backend) -> Answer:
        return Answer(
            await metrics(), headers=_NO_STORE, media_type=b"text/plain; version=0.0.4; charset=utf-8"
        )

    return metrics_text


def _constant(path: str, summary: str, handler: RowHandler, schema: str, method: str = "GET") -> Operation:
    """Return the operation of a resource that never changes while the server runs."""
    return Operation(
        method=method,
        path=path,
        summary=summary,
        permission=OPEN,
        handler=handler,
        response_schema=schema,
        freshness=Freshness.NEVER,
    )


def _from_node(path: str, summary: str, handler: NodeHandler, schema: str, *errors: e.ErrorKind) -> Operation:
    """Return the operation of a resource that the node answers, to everyone."""
    return Operation(
        method="GET",
        path=path,
        summary=summary,
        permission=OPEN,
        node_handler=handler,
        response_schema=schema,
        errors=errors,
    )


OPERATIONS = (
    _constant("/", "Empty", root, "Empty"),
    _constant("/", "Empty", root, "Empty", method="POST"),
    _from_node("/v1/metadata/id", "The ids of the clusters", cluster_id, "ServerClusterId"),
    _constant("/v1/metadata/version", "The version of the server", version, "SchemaRegistryServerVersion"),
    _constant(
        "/v1/metadata/deployment",
        "Attributes of the deployment: none",
        deployment,
        "SchemaRegistryDeployment",
    ),
)


OWN_OPERATIONS = (
    _from_node("/health/live", "200 if this process is running", live, "Health"),
    _from_node(
        "/health/started",
        "200 once the log has been read to its end; 503 until then",
        answer_started,
        "Health",
        e.UNAVAILABLE,
    ),
    replace(
        _from_node(
            "/health/ready",
            "200 if the node should receive traffic, or can carry out writes; otherwise 503 with the reasons",
            ready,
            "Health",
            e.UNAVAILABLE,
            e.UNPROCESSABLE,
        ),
        parameters=(
            word(
                "for", "traffic: the node should receive requests; writes: it can carry out writes", "traffic"
            ),
        ),
    ),
    _from_node(
        "/_health",
        "Readiness in Karapace's format; 503 if not ready",
        karapace_health,
        "KarapaceHealth",
        e.UNAVAILABLE,
    ),
    _from_node(
        "/master_available",
        "True if a primary is known, in Karapace's format",
        primary_available,
        "PrimaryAvailable",
    ),
    replace(
        _from_node("/node", "Role, epoch, offsets and digest of the node", node, "Node"), permission=ADMINS
    ),
    replace(
        _from_node(
            "/admin/cluster",
            "All nodes of the cluster, and its primaries so far",
            cluster,
            "Cluster",
            e.UNAVAILABLE,
        ),
        permission=ADMINS,
    ),
    Operation(
        method="GET",
        path="/quarantine",
        summary="Quarantined records of the log",
        permission=ADMINS,
        sees_all=True,
        handler=quarantine,
        response_schema="Quarantine",
        parameters=(
            flag("clashes", "Include versions whose id also stands for other content; examines all versions"),
            *PAGE,
        ),
    ),
)
