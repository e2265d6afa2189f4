"""The digest of a census for a registry: one usage for each source, summed over its partitions.

A primary with a schedule runs ``python -m snapshots.census.published FD``, which takes a census and reports
its digest through the socket ``FD``: a line for each source, and one for the census.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from registry.base.processes.child_process import started_by_parent
from registry.domain.log_format import usage
from registry.domain.log_format.usage import USES_MAX, Usage
from registry.domain.model import DEFAULT_CONTEXT
from snapshots.building.requests import NICENESS, LoggedProgress

from .files import Census
from .plan import UNREAD, PartitionRow, Use
from .run import FAILURES, Result, configured_scope, open_location, run
from .topics import OTHERS, OUT, matches

_REASON_CHARACTERS = 500
_NO_CONTEXT = "several contexts may own the ids of its messages: name its context in census_contexts"
_log = logging.getLogger(__name__)

# Returns the context whose ids the messages of a source name; ``None`` if that is unknown.
ContextOf = Callable[[str], str | None]


def context_of(configured: str, inferred: Mapping[str, str]) -> ContextOf:
    """Return a function that returns the context of a source.

    That is the configured one (``PATTERN=CONTEXT,…``), by the longest pattern; else the inferred one
    (:func:`.topics.infer_contexts`). Raises :class:`ValueError` for a pattern without a context.
    """
    chosen = dict(_contexts(configured))

    def find(source: str) -> str | None:
        pattern = max((each for each in chosen if matches([each], source)), key=len, default="")
        return chosen[pattern] if pattern else inferred.get(source, inferred.get(OTHERS))

    return find


def _contexts(text: str) -> Iterator[tuple[str, str]]:
    for pair in filter(None, (each.strip() for each in text.split(","))):
        pattern, _, context = pair.partition("=")
        odd = not pattern or "*" in pattern[:-1] or pattern.startswith(OUT)
        if odd or not context.startswith(".") or ":" in context:
            raise ValueError(f"{pair!r} is not PATTERN=CONTEXT, such as orders-eu.*=.eu")
        yield pattern, context


def usages(result: Result, context: ContextOf) -> Iterator[tuple[str, Usage]]:
    """Yield the sources of a census with their usage, in the order of their names."""
    rows, uses = defaultdict[str, list[PartitionRow]](list), defaultdict[str, list[Use]](list)
    for row in result.rows.partitions:
        rows[row.source].append(row)
    for use in result.rows.uses:
        uses[use.source].append(use)
    for source in sorted(rows):
        found = _sum_by_schema(uses[source])
        reason = _reason(rows[source])
        owner = context(source)
        if owner is None and any(use.reference is not None for use in found):
            reason = reason or _NO_CONTEXT
        if len(found) > USES_MAX:
            reason = f"its messages name {len(found)} schemas, more than a registry keeps of one source"
        state: Literal["read", "unread"] = "unread" if reason else "read"
        messages = sum(use.messages for use in uses[source] if use.side == "value")
        yield (
            source,
            Usage(
                census=result.census.id,
                state=state,
                reason=reason,
                context=owner or DEFAULT_CONTEXT,
                ms=result.census.started_ms,
                messages=messages,
                uses=found[:USES_MAX],
            ),
        )


def _sum_by_schema(uses: Iterable[Use]) -> list[usage.Use]:
    groups = defaultdict[tuple[str, str, int | str | None], list[Use]](list)
    for use in uses:
        groups[use.side, use.framing, use.guid if use.id is None else use.id].append(use)
    return [
        usage.Use(
            side=found[0].side,  # type: ignore[arg-type] # one of the two sides
            framing=found[0].framing,  # type: ignore[arg-type] # one of the framings
            schema=schema,
            messages=sum(use.messages for use in found),
            size=sum(use.bytes for use in found),
            first=min((use.first_ms for use in found if use.first_ms is not None), default=-1),
            last=max((use.last_ms for use in found if use.last_ms is not None), default=-1),
            exact=all(use.exact for use in found),
        )
        for (_, _, schema), found in sorted(groups.items(), key=lambda group: tuple(map(str, group[0])))
    ]


def _reason(rows: Iterable[PartitionRow]) -> str:
    """Return why a source is unread: the most frequent reason of its partitions; empty if it was read."""
    reasons = Counter(row.reason or "unknown" for row in rows if row.state == UNREAD)
    return reasons.most_common(1)[0][0][:_REASON_CHARACTERS] if reasons else ""


def census_record(census: Census, location: str, published: Iterable[Usage]) -> usage.Census:
    """Return the census as a registry keeps it; ``location``: without secrets.

    It is complete only if every usage that was ``published`` of it is.
    """
    unread = sum(each.state == UNREAD for each in published)
    return usage.Census(
        id=census.id,
        location=location,
        sha256=census.sha256,
        started=census.started_ms,
        ended=census.ended_ms,
        complete=census.complete and not unread,
        patterns=list(census.patterns),
        sources=census.sources.read + census.sources.unread,
        unread=unread,
        partitions=census.partitions,
        messages=census.messages,
        base=census.base,
    )


def main() -> int:
    """Take the census that the settings describe, and report it to the node; return the exit code."""
    parent = started_by_parent("census")
    settings = parent.settings
    os.nice(NICENESS)
    try:
        location = open_location(settings)
        result = run(settings, configured_scope(settings), location, LoggedProgress())
    except FAILURES as error:
        _log.error("no census was taken: %s", error)
        return 1
    found = dict(usages(result, context_of(settings.census_contexts, parent.request)))
    for source, each in found.items():
        parent.report(source=source, usage=msgspec.to_builtins(each))
    record = census_record(result.census, str(location), found.values())
    parent.report(census=msgspec.to_builtins(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
