"""The guard of deletions: what data still needs, or a census has not counted, is not deleted permanently.

A message is stranded if the registry has lost the schema that its id or guid names, or one that this refers
to. So a version goes only if the newest census is complete and recent, began after the version was
soft-deleted, and found it neither used nor referred to by a version in use. The census has the clock of the
job that ran it, and soft deletions have the primary's: a census cannot begin later than its record was
appended.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.domain import errors
from registry.domain.log_format import usage as stored
from registry.domain.lookup import usage
from registry.domain.lookup.usage import VersionUsage
from registry.domain.queries.scope import Defaults
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search, run_search
from registry.domain.rows.view import View

OFF, WARN, REFUSE = GUARDS = ("off", "warn", "refuse")
# Referrers that are examined for all versions of one deletion together.
EXAMINED_MAX = 50_000
_DAY_MS = 86_400_000


def check_guard(view: View, doomed: Sequence[Registered], defaults: Defaults, *, force: bool) -> None:
    """Refuse to delete versions permanently that the data may still need (40984)."""
    if defaults.deletion_guard != REFUSE or force:
        return
    reason = why_needed(view, doomed, defaults.census_age_max_ms, defaults.now)
    if reason:
        raise errors.DATA_NEEDS_VERSION(doomed[0].subject.qualified, reason)


def why_needed(view: View, doomed: Sequence[Registered], age_max_ms: int, now: int) -> str:
    """Return what :func:`find_need` finds."""
    return run_search(find_need(view, doomed, age_max_ms, now))


def find_need(view: View, doomed: Sequence[Registered], age_max_ms: int, now: int) -> Search[str]:
    """Search for why versions must not be deleted permanently; the result is empty if they may be.

    The reason names no topics: who may delete a version need not know them. ``now``: the primary's clock, in
    ms since the epoch.
    """
    census = stored.census(view)
    if census is None:
        return "no census has been published, so it is unknown if messages use it"
    left = EXAMINED_MAX
    for each in doomed:
        found = yield from usage.find_usage(view, each)
        left -= found.examined
        if left < 0:
            return f"more than {EXAMINED_MAX:,} versions refer to its versions: delete these one by one"
        if found.is_used:
            return f"version {each.version} is in use: {_uses(found)}"
    if not census.complete:
        # Without names, which only administrators may see: they are of anybody's topics.
        unread = f"; unread sources: {census.unread}" if census.unread else ""
        return f"the newest census, {census.id}, is not complete{unread}"
    if now - census.ended > age_max_ms:
        days = (now - census.ended) / _DAY_MS
        return f"the newest census, {census.id}, ended {days:.1f} days ago: run another one"
    began = min(census.started, census.ts)
    for each in doomed:
        if began <= usage.deleted_at(view, each):
            return f"version {each.version} was soft-deleted after the newest census, {census.id}, began"
    return ""


def _uses(found: VersionUsage) -> str:
    sources = {each.source for each in found.uses}
    if not sources:
        return f"{len(found.referrers)} versions in use refer to it"
    messages = sum(each.use.messages for each in found.uses)
    return f"messages: {messages:,}, topics or files: {len(sources):,}"
