"""``registrar search``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.resources import SearchResults
from registry.cli.output import OK, json_option, note, print_json, print_table
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient

_PAGE = 100
# What is shown of a subject whose schema is too long to show where words are.
_NOTHING = {"kind": "", "path": "", "text": ""}


@click.command("search", cls=Verb, epilog="Exit status: 0 searched, 2 no answer or wrong usage.")
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--kind",
    type=click.Choice(["subject", "field", "type", "tag", "property", "doc"]),
    help="Search only there.",
)
@click.option("--limit", default=100, type=click.IntRange(1), show_default=True, help="Maximum of subjects.")
@json_option
@with_registry
def search(
    registry: RegistryClient, *, words: tuple[str, ...], kind: str | None, limit: int, as_json: bool
) -> int:
    """Find subjects by WORDS in their names, fields, types, tags, metadata properties and docs.

    All words must be found; each may be the beginning of one.
    """
    hits: list[Any] = []
    cursor, complete = "", True
    while len(hits) < limit:
        page = registry.get(
            "/search", SearchResults, query=" ".join(words), kind=kind,
            limit=min(_PAGE, limit - len(hits)), cursor=cursor,
        )  # fmt: skip
        hits += page["hits"]
        cursor, complete = page["next"] or "", complete and page["complete"] and not page["cut"]
        if not cursor:
            break
    if as_json:
        print_json({"hits": hits, "complete": complete and not cursor})
        return OK
    rows = [_row(hit, match) for hit in hits for match in hit["matches"] or [_NOTHING]]
    print_table(("subject", "version", "found in", "text"), rows)
    if cursor:
        note(f"there are more than {limit} subjects: use more words, or --limit")
    elif not complete:
        note("not everything was searched: the index is being built, or the words are in too many names")
    return OK


def _row(hit: Any, match: Any) -> tuple[str, str, str, str]:
    place = f"{match['kind']} {match['path']}".strip()
    return hit["subject"], str(hit["version"]), place, match["text"].replace("\n", " ")
