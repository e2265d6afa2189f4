"""Promotion from and to registries that have less than Registrar, or show it in other ways."""

from __future__ import annotations

import pytest

from tests.process.as_confluent import as_confluent
from tests.process.cli.folder.places import Place
from tests.process.cli.running_verbs import verb

INT, LONG, STRING = '"int"', '"long"', '"string"'


def aliased(one: Place, subject: str) -> None:
    """Register a subject that then becomes another name of one with other versions."""
    one.register(subject, INT)
    one.register(subject, LONG)
    for text in (STRING, '"bytes"', '"boolean"'):
        one.ask("PUT", f"/config/real-{subject}", {"compatibility": "NONE"})
        one.register(f"real-{subject}", text)
    one.ask("PUT", f"/config/{subject}", {"alias": f"real-{subject}"})


@pytest.mark.parametrize("pattern", ["", "*"])
@pytest.mark.parametrize("ids", [(), ("--keep-ids",)])
def test_a_subject_that_is_an_alias_is_promoted_with_its_own_versions(
    one: Place, other: Place, pattern: str, ids: tuple[str, ...]
) -> None:
    subject = f"alias{len(pattern)}{len(ids)}"
    aliased(one, subject)
    words = ("--subjects", f"{subject}{pattern}", "--versions", "all", *ids)
    done = verb("promote", "--from", one.url, "--to", other.url, *words)
    assert done.status == 0, done.err
    assert other.places(subject)[:2] == [(subject, 1), (subject, 2)]
    assert other.text(subject, 2) == LONG


def test_an_alias_whose_own_versions_nobody_lists_is_refused(one: Place, other: Place) -> None:
    aliased(one, "unlisted")
    with as_confluent(one.url, lacks="/schemas?") as less:
        done = verb("promote", "--from", less.url, "--to", other.url, "--subjects", "unlisted")
    assert (done.status, done.out) == (2, "")
    assert "answers for unlisted with real-unlisted" in done.err
    assert other.places("unlisted") == []


def test_versions_are_read_by_pages_where_the_registry_has_them(one: Place, other: Place) -> None:
    for number in range(5):
        one.register(f"paged-{number}", STRING)
    other.register("paged-0", STRING)
    with as_confluent(one.url) as source, as_confluent(other.url) as target:
        words = ("--subjects", "paged-*", "--versions", "all", "--dry-run", "--json")
        done = verb("promote", "--from", source.url, "--to", target.url, *words)
    assert len(done.json["steps"]) == 4
    assert not [each for each in (*source.asked, *target.asked) if "/versions" in each]


def test_versions_are_read_one_by_one_where_there_is_no_list(one: Place, other: Place) -> None:
    one.register("single-1", INT)
    one.register("single-2", INT)
    with as_confluent(one.url, lacks="/schemas?") as source:
        words = ("--from", source.url, "--to", other.url, "--subjects", "single-*")
        assert verb("promote", *words).status == 0
    assert other.places("single-") == [("single-1", 1), ("single-2", 1)]


def test_deletions_are_seen_in_lists_that_do_not_mark_them(one: Place, other: Place) -> None:
    one.register("marked", INT)
    one.register("marked", LONG)
    one.ask("DELETE", "/subjects/marked/versions/1")
    with as_confluent(one.url, marks=False) as source:
        words = ("--from", source.url, "--to", other.url, "--subjects", "marked*", "--keep-ids")
        assert verb("promote", *words, "--versions", "all").status == 0
    assert [each[1:] for each in other.versions("marked")] == [each[1:] for each in one.versions("marked")]


def test_a_registry_that_keeps_no_ids_is_reported(one: Place, other: Place) -> None:
    one.ask("PUT", "/mode/ids", {"mode": "IMPORT"})
    one.register("ids", '{"type":"fixed","name":"Ids","size":3}', id=4242, version=1)
    with as_confluent(other.url, apicurio=True) as less:
        words = ("--from", one.url, "--to", less.url, "--subjects", "ids", "--keep-ids")
        done = verb("promote", *words, "--versions", "all")
    assert done.status == 2
    assert "instead of 4242: this registry does not keep ids" in done.err


@pytest.mark.parametrize("status", [403, 404])
def test_a_mode_that_cannot_be_read_is_reported_and_stops_nothing(
    one: Place, other: Place, status: int
) -> None:
    subject = f"unread-{status}"
    one.register(subject, INT)
    with as_confluent(other.url, lacks="/mode", status=status) as less:
        done = verb("promote", "--from", one.url, "--to", less.url, "--subjects", subject)
        assert (done.status, "does not show every mode" in done.err) == (0, True)
        planned = verb("delete", subject, "--yes", "--url", less.url)
        assert (planned.status, "does not show its mode" in planned.err) == (0, True)
    assert [each[3] for each in other.versions(subject)] == [True]
