"""Plans: what is registered, in which order, and what is refused before anything is written."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, count
from typing import Any

import pytest

from registry.cli.folder.contents import Contents, FolderError, Usage, Version
from registry.cli.folder.memory_registry import MemoryRegistry
from registry.cli.folder.plan import plan, plan_for
from registry.cli.folder.steps import Plan, Step
from registry.domain.commands import DeleteMode, PutCensus, PutMode, PutUsage, Register
from registry.domain.decide import decide
from registry.domain.errors import RegistryError
from registry.domain.log_format.usage import census as stored_census
from registry.domain.lookup.usage import find_usage
from registry.domain.model import LATEST, Reference, Subject
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Defaults
from registry.domain.queries.walks import run_search
from registry.domain.subject_patterns import parse_pattern
from tests.unit.small_registry import INT, LONG, STRING, SmallRegistry, record, reference

EMPTY = Contents()
ALL = (parse_pattern("*"),)
MONEY = record("Money", "cents")
ORDER = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'


def folder(**subjects: Any) -> Contents:
    """Return contents: texts, versions or tuples of these by subject."""
    return Contents(
        {
            name: tuple(
                each if isinstance(each, Version) else Version(each, number=place if len(given) > 1 else 0)
                for place, each in enumerate(given, 1)
            )
            for name, found in subjects.items()
            if (given := found if isinstance(found, tuple) else (found,))
        }
    )


def order(version: int = LATEST) -> Version:
    return Version(ORDER, references=(Reference("Money", "money", version),))


def stored(text: str, number: int = 1, schema_id: int = 1, **more: Any) -> Version:
    return Version(text, number=number, schema_id=schema_id, **more)


def lines(found: Plan) -> list[str]:
    return [f"{each.sign} {each.shows}" for each in found.steps]


def verdicts(found: Plan) -> dict[str, str]:
    return {each.subject: each.verdict for each in found.outcomes}


def registered(registry: MemoryRegistry, subject: str) -> list[tuple[int, int]]:
    found = (registry.version(subject, number) for number in range(1, 10))
    return [(each.version, each.row.schema_id) for each in found if each is not None]


def test_what_is_referred_to_is_registered_first_and_by_its_number_there() -> None:
    present = Contents({"money": (stored(INT), stored(LONG, 2, 2))})
    wanted = folder(a_order=order(), money=MONEY)
    wanted = Contents(wanted.versions, {"money": {"compatibilityLevel": "NONE", "normalize": True}})
    found = plan(wanted, present)
    assert lines(found) == [
        "+ config of money: compatibility = NONE, normalize = true",
        "+ money version 3",
        "+ a_order version 1",
    ]
    command = found.steps[-1].command
    assert isinstance(command, Register)
    assert command.references == [Reference("Money", "money", 3)]


def test_a_second_plan_has_no_steps() -> None:
    wanted = Contents(
        folder(order=order(), money=(INT, LONG, MONEY)).versions,
        {"": {"compatibilityLevel": "full"}, "money": {"compatibilityLevel": "NONE", "normalize": True}},
        {"money": "readonly"},
    )
    registry = MemoryRegistry()
    assert plan_for(wanted, registry).possible
    again = plan_for(wanted, registry)
    assert lines(again) == []
    assert verdicts(again) == {"order": "unchanged", "money": "unchanged"}


def test_a_plan_names_what_the_registry_would_refuse_and_what_depends_on_it() -> None:
    present = Contents({"money": (stored(INT),)})
    found = plan(folder(money=MONEY, order=order(), broken="{", alone=STRING), present)
    assert verdicts(found) == {
        "money": "incompatible",
        "order": "skipped",
        "broken": "rejected",
        "alone": "new",
    }
    assert not found.possible
    (refusal,) = [each for each in found.refused_outcomes if each.verdict == "incompatible"]
    assert [each.change.type for each in refusal.result.changes] == ["TYPE_MISMATCH"]
    assert refusal.result.changes[0].change.fix


def test_a_reference_out_of_the_folder_is_the_registrys_latest() -> None:
    present = Contents({"money": (stored(INT), stored(MONEY, 2, 2))})
    found = plan(folder(order=order()), present)
    assert found.possible
    assert found.steps[0].command.references == [Reference("Money", "money", 2)]
    assert not plan(folder(order=order(7)), present).possible


def test_a_level_of_the_folder_counts_before_its_schemas() -> None:
    present = Contents({"s": (stored(record("R", "a")),)})
    wanted = folder(s=record("R", "a", "b?"))
    assert plan(wanted, present).possible
    strict = Contents(wanted.versions, {"s": {"compatibilityLevel": "FULL"}})
    assert plan(strict, present).possible
    assert not plan(folder(s=record("R", "a", "b")), present).possible
    loose = Contents(folder(s=record("R", "a", "b")).versions, {"s": {"compatibilityLevel": "FORWARD"}})
    assert plan(loose, present).possible


def test_transitive_levels_compare_all_versions_in_order() -> None:
    texts = (record("R", "a"), record("R", "a", "b?"), record("R", "a", "b"))
    wanted = folder(s=texts)
    assert plan(wanted, EMPTY).possible
    transitive = Contents(wanted.versions, {"s": {"compatibilityLevel": "BACKWARD_TRANSITIVE"}})
    found = plan(transitive, EMPTY)
    assert [each.verdict for each in found.outcomes] == ["new", "compatible", "incompatible"]


def test_modes_open_before_and_close_after_registrations() -> None:
    present = Contents({"s": (stored(INT),)}, modes={"s": "READONLY"})
    wanted = folder(s=LONG)
    assert not plan(wanted, present).possible
    opened = plan(Contents(wanted.versions, modes={"s": "READWRITE"}), present)
    assert lines(opened) == ["~ mode of s: READWRITE", "+ s version 2"]
    closed = plan(Contents(wanted.versions, modes={"s": "READONLY"}), Contents({"s": (stored(INT),)}))
    assert lines(closed) == ["+ s version 2", "+ mode of s: READONLY"]


def test_pruning_deletes_what_is_covered_and_lacking_with_referrers_first() -> None:
    present = Contents(
        {
            "a-money": (stored(MONEY),),
            "b-order": (stored(ORDER, 1, 2, references=(Reference("Money", "a-money", 1),)),),
            "other": (stored(INT, 1, 3),),
            "a-kept": (stored(INT, 1, 3),),
            "a-gone": (stored(INT, 1, 3, deleted=True),),
        }
    )
    wanted = folder(**{"a-kept": INT})
    some = tuple(map(parse_pattern, ("a-*", "b-*")))
    assert lines(plan(wanted, present)) == []
    found = plan(wanted, present, prune=some)
    assert lines(found) == ["- b-order, all versions", "- a-money, all versions"]
    refused = plan(wanted, present, prune=some[:1])
    assert [each.subject for each in refused.problems] == ["a-money"]


def test_a_schema_that_is_not_the_latest_is_reported() -> None:
    found = plan(folder(s=INT), Contents({"s": (stored(INT), stored(LONG, 2, 2))}))
    assert lines(found) == []
    assert "s: this schema is version 1, but 2 is newer" in found.notes[0]


def test_a_cycle_of_references_is_named() -> None:
    def refers(other: str) -> Version:
        return Version(ORDER, references=(Reference("Money", other, LATEST),))

    with pytest.raises(FolderError, match=r"a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c"):
        plan(folder(a=refers("b"), b=refers("c"), c=refers("a")), EMPTY)


def test_a_subject_with_an_alias_and_schemas_is_refused() -> None:
    wanted = Contents(folder(s=INT).versions, {"s": {"alias": "t"}})
    assert [each.subject for each in plan(wanted, EMPTY).problems] == ["s"]


def test_neither_registrations_nor_deletions_follow_an_alias() -> None:
    versions = folder(a=stored(INT), b=stored(INT)).versions
    present = Contents(versions, {"a": {"alias": "b"}})
    registered = plan(folder(a=LONG), present)
    assert "would be registered under b" in registered.problems[0].message
    deleted = plan(folder(x=INT), present, prune=(parse_pattern("a*"),))
    assert "b would be deleted instead" in deleted.problems[0].message
    assert lines(deleted) == ["+ x version 1"]


def test_a_config_that_cannot_be_understood_leaves_no_plan() -> None:
    with pytest.raises(FolderError, match="config or mode of s that is unknown here"):
        plan(EMPTY, Contents(configs={"s": {"compatibilityLevel": "SIDEWAYS"}}))


def test_an_unknown_level_is_a_problem() -> None:
    found = plan(Contents(configs={"s": {"compatibilityLevel": "SIDEWAYS"}}), EMPTY)
    assert "SIDEWAYS" in found.problems[0].message


def source() -> Contents:
    return Contents(
        {
            "money": (stored(INT, 2, 40), stored(MONEY, 4, 41)),
            "order": (stored(ORDER, 7, 42, references=(Reference("Money", "money", 4),)),),
            "gone": (stored(STRING, 1, 43, deleted=True), stored(LONG, 2, 44)),
        }
    )


def test_an_import_keeps_ids_numbers_and_deletions_and_is_done_once() -> None:
    registry = MemoryRegistry()
    assert plan_for(source(), registry, keep_ids=True).possible
    assert registered(registry, "money") == [(2, 40), (4, 41)]
    assert registered(registry, "order") == [(7, 42)]
    assert registered(registry, "gone") == [(1, 43), (2, 44)]
    assert registry.version("gone", 1).row.deleted
    assert registry.mode("money") is None
    assert lines(plan_for(source(), registry, keep_ids=True)) == []


def interrupted(steps: list[Step]) -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.load(Contents({}, {}, {"order": "READONLY"}))
    for step in steps:
        registry.submit(step.command)
    return registry


def whole() -> Plan:
    return plan(source(), Contents({}, {}, {"order": "READONLY"}), keep_ids=True)


@pytest.mark.parametrize("done", range(len(whole().steps) + 1))
def test_an_import_that_was_interrupted_anywhere_is_completed(done: int) -> None:
    registry, modes = interrupted(whole().steps[:done]), whole().former_modes
    assert modes == {"money": None, "order": "READONLY", "gone": None}
    for subject, mode in modes.items():
        if registry.mode(subject) == "IMPORT":
            registry.submit(DeleteMode(subject) if mode is None else PutMode(subject, mode, mode))
    assert plan_for(source(), registry, keep_ids=True, unfinished=modes).possible
    assert registered(registry, "money") == [(2, 40), (4, 41)]
    assert registered(registry, "order") == [(7, 42)]
    assert {each: registry.mode(each) for each in modes} == modes
    assert registry.version("gone", 1).row.deleted


@pytest.mark.parametrize("done", range(len(whole().steps) + 1))
def test_a_mode_import_that_may_be_meant_stays_and_is_reported(done: int) -> None:
    registry = interrupted(whole().steps[:done])
    before = {each: registry.mode(each) for each in ("money", "order", "gone")}
    found = plan_for(source(), registry, keep_ids=True)
    assert found.possible
    assert registered(registry, "order") == [(7, 42)]
    assert {each: registry.mode(each) for each in before} == before
    told = {note.split()[0] for note in found.notes}
    assert told == {each for each, mode in before.items() if mode == "IMPORT"}


def test_an_import_within_a_context_in_mode_import_touches_no_mode() -> None:
    registry = MemoryRegistry()
    registry.load(Contents({}, {}, {"": "IMPORT"}))
    found = plan_for(source(), registry, keep_ids=True)
    assert (found.possible, found.former_modes, found.notes) == (True, {}, [])
    assert not any("mode" in each for each in lines(found))


def test_a_registration_that_was_interrupted_anywhere_is_completed() -> None:
    wanted = Contents(
        folder(order=order(), money=(INT, MONEY)).versions,
        {"money": {"compatibilityLevel": "NONE"}},
        {"money": "READONLY"},
    )
    whole = plan(wanted, EMPTY).steps
    for done in count():
        registry = MemoryRegistry()
        for step in whole[:done]:
            registry.submit(step.command)
        assert len(plan_for(wanted, registry).steps) == len(whole) - done
        if done == len(whole):
            return


def test_an_id_or_number_that_is_taken_is_reported_before_anything_is_written() -> None:
    taken = Contents({"other": (stored('"bytes"', 1, 41),)})
    found = plan(source(), taken, keep_ids=True)
    assert verdicts(found)["money"] == "rejected"
    assert "id 41" in found.refused_outcomes[0].message
    number = plan(source(), Contents({"money": (stored(INT, 2, 9),)}), keep_ids=True)
    assert "has the id 9 already, not 40" in number.problems[0].message


def test_an_id_of_another_registry_does_not_make_two_schemas_the_same() -> None:
    wanted = Contents({"s": (stored(MONEY, deleted=True),)})
    spelled = Contents({"s": (stored(json.dumps(json.loads(MONEY), indent=3)),)})
    assert lines(plan(wanted, spelled, keep_ids=True)) == ["- s version 1, which is deleted in the source"]
    for other in (stored(INT), stored('{"type":"string"}', schema_type="JSON")):
        found = plan(wanted, Contents({"s": (other,)}), keep_ids=True)
        assert "version 1 with the id 1 is another schema" in found.problems[0].message


def test_an_import_is_compared_with_versions_that_are_in_use() -> None:
    present = Contents({"money": (stored(INT, 2, 40),)})
    assert not plan(source(), present, keep_ids=True).possible
    loose = Contents(present.versions, {"money": {"compatibilityLevel": "NONE"}})
    assert plan(source(), loose, keep_ids=True).possible


def test_a_subjects_own_mode_returns_after_an_import() -> None:
    present = Contents(
        {"money": (stored(INT, 2, 40),)}, {"": {"compatibilityLevel": "NONE"}}, {"money": "READONLY"}
    )
    registry = MemoryRegistry()
    registry.load(present)
    assert plan_for(source(), registry, keep_ids=True).possible
    assert registry.mode("money") == "READONLY"


def test_a_reference_to_a_deleted_version_is_reported_as_such() -> None:
    money = stored(MONEY, 3, deleted=True)
    wanted = Contents({"money": (money,), "order": (replace(order(3), number=1),)})
    (refused,) = plan(wanted, EMPTY).refused_outcomes
    assert refused.message == "refers to money version 3, which is soft-deleted: undelete it first"


def test_contexts_are_kept_apart() -> None:
    wanted = folder(**{":.c:order": order(), ":.c:money": MONEY, "money": INT})
    found = plan(wanted, EMPTY)
    assert found.possible
    assert lines(found) == ["+ :.c:money version 1", "+ money version 1", "+ :.c:order version 1"]


IN_USE = {"s": {"compatibilityLevel": "FORWARD_USED"}}


def used(states: str, **census: Any) -> Usage:
    """Return the usage of the versions of ``s``, by the first letters: used, no longer, or not known."""
    names = {"u": "used", "n": "unused", "?": "unknown"}
    found = {"id": "c1", "started": 5_000, "ended": 6_000, "complete": True, "usableUntil": 7_000, **census}
    return Usage(found, {("s", each): names[state] for each, state in enumerate(states, 1)}, 6_500)


@pytest.mark.parametrize(
    ("usage", "verdict", "compared"),
    [
        (used("nnnu"), "compatible", "with the versions in use or the latest: 4"),
        (used("unnn"), "incompatible", "with the versions in use or the latest: 4, 1"),
        (used("n?nn"), "incompatible", "with the versions in use or the latest: 4, 2"),
        (used("nn?n"), "compatible", "with the versions in use or the latest: 4;"),  # it is soft-deleted
        (used("nnun"), "incompatible", "with the versions in use or the latest: 4, 3"),
        (used("nnnn", complete=False), "incompatible", "with all versions: the newest census, c1, is not"),
        (used("nnnn", usableUntil=6_499), "incompatible", "with all versions: the newest census, c1, ended"),
        (None, "incompatible", "with all versions: no census has been published"),
    ],
)  # fmt: skip
def test_a_level_for_versions_in_use_compares_with_what_the_registry_says_of_them(
    usage: Usage | None, verdict: str, compared: str
) -> None:
    old = [record("R", field) for field in ("a", "b", "d")]
    versions = (
        *(stored(text, number, number, deleted=number == 3) for number, text in enumerate(old, 1)),
        stored(record("R", "c"), 4, 4),
    )
    found = plan(folder(s=record("R", "c", "e")), Contents({"s": versions}, IN_USE, usage=usage))
    assert verdicts(found) == {"s": verdict}
    [outcome] = found.outcomes
    assert outcome.result is not None
    assert bool(outcome.result.messages) == (verdict == "incompatible")
    [note] = found.notes
    assert note.startswith(f"s: Compared {compared}")
    if verdict == "incompatible":
        assert note.removeprefix("s: ") in outcome.message


def test_versions_of_the_same_plan_are_in_use_and_a_level_that_it_sets_counts() -> None:
    present = Contents({"s": (stored(record("R", "a")), stored(record("R", "b"), 2, 2))}, usage=used("nn"))
    wanted = folder(s=(record("R", "b", "c"), record("R", "b", "c", "d"), record("R", "c", "d")))
    found = plan(Contents(wanted.versions, IN_USE), present)
    assert [each.verdict for each in found.outcomes] == ["compatible", "compatible", "incompatible"]
    start = "s: Compared with the versions in use or the latest: "
    assert [each.removeprefix(start).partition(";")[0] for each in found.notes] == ["2", "3", "4, 3"]


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_decides_by_the_census_as_the_registry_does(seed: int) -> None:
    chance = random.Random(seed)
    small = SmallRegistry(Defaults("NONE"))
    for _ in range(chance.randint(1, 5)):
        small.register("s", record("R", *chance.sample("abcd", 2)))
        if chance.random() < 0.3:
            with suppress(RegistryError):  # there is none, or something refers to it
                small.delete("s", chance.randint(1, 5))
        if chance.random() < 0.3 and (latest := versions.latest(small.view, Subject.parse("s"))):
            small.register(
                "user", record("U", chance.choice("abcd")), references=[reference("s", latest.version)]
            )
    started = 1_000 + chance.randint(0, len(small.log))
    small.level("s", "FORWARD_USED")
    uses = [["value", "id", each, 1, 1, 1, 1, True] for each in range(1, 8) if chance.random() < 0.3]
    small.submit(PutUsage("t", json.dumps({"census": "c", "state": "read", "uses": uses}).encode()))
    census = {"id": "c", "started": started, "ended": started, "complete": True}
    small.submit(PutCensus(json.dumps({**census, "location": "", "sha256": ""}).encode()))
    newest = stored_census(small.view)
    contents, states = dict[str, tuple[Version, ...]](), dict[tuple[str, int], str]()
    for name in ("s", "user"):
        rows = list(versions.versions(small.view, Subject.parse(name), deleted=True))
        for each in rows:
            states[name, each.version] = run_search(find_usage(small.view, each)).state(newest)
        contents[name] = tuple(
            stored(
                json.loads(each.row.schema.removeprefix(b',"schema":')), each.version, each.row.schema_id,
                deleted=each.row.deleted, references=tuple(entities.references(each.row)),
            )
            for each in rows
        )  # fmt: skip
    now = started + 1
    usage = Usage(census | {"usableUntil": now}, states, now)
    small.defaults = replace(small.defaults, now=now)
    for fields in (each for size in range(1, 4) for each in combinations("abcde", size)):
        text = record("R", *fields)
        found = plan(folder(s=text), Contents(contents, IN_USE, usage=usage))
        [outcome] = found.outcomes
        assert (outcome.verdict, outcome.message) == decided(small, Register("s", text))


def decided(small: SmallRegistry, command: Register) -> tuple[str, str]:
    """Return the verdict of a registry on a registration, and its message."""
    try:
        decision = small.parser.run(
            decide(small.view, command, small.ids, small.defaults, small.parser.memory)
        )
    except RegistryError as error:
        return "incompatible", error.message
    return "compatible" if decision.entries else "unchanged", ""
