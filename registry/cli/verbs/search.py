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
    type=click.Choice(["subject", "field", "type", "tag", "property", "principal", "doc"]),
    help="Search only there.",
)
@click.option(
    "--limit", default=100, type=click.IntRange(1), show_default=True, help="Maximum number of subjects."
)
@json_option
@with_registry
def search(
    registry: RegistryClient, *, words: tuple[str, ...], kind: str | None, limit: int, as_json: bool
) -> int:
    """Find subjects by WORDS of names, fields, types, tags, properties, docs and who registered them.

    All words must be found; each may be the beginning of one.
    """
    hits: list[Any] = []
    cursor, built, cut = "", 1.0, False
    while len(hits) < limit:
        page = registry.get(
            "/search", SearchResults, query=" ".join(words), kind=kind,
            limit=min(_PAGE, limit - len(hits)), cursor=cursor,
        )  # fmt: skip
        hits += page["hits"]
        cursor, cut = page["next"] or "", cut or page["cut"]
        built = min(built, 1.0 if page["complete"] else page.get("built", 0.0))
        if not cursor:
            break
    if as_json:
        print_json({"hits": hits, "complete": built == 1.0 and not cut and not cursor, "built": built})
        return OK
    rows = [_row(hit, match) for hit in hits for match in hit["matches"] or [_NOTHING]]
    print_table(("subject", "version", "found in", "text"), rows)
    if cursor:
        note(f"there are more than {limit} subjects: use more words, or --limit")
    if built < 1.0:
        note(f"the index is being built ({built:.0%} so far): there may be more subjects")
    if cut:
        note("not everything was searched, because the words are in too many names: use longer or more words")
    return OK


def _row(hit: Any, match: Any) -> tuple[str, str, str, str]:
    place = f"{match['kind']} {match['path']}".strip()
    return hit["subject"], str(hit["version"]), place, match["text"].replace("\n", " ")
