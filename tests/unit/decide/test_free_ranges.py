"""Free ranges: ids below the highest that nobody was ever given, and releases of reserved ids."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.commands import Register, ReleaseIds
from registry.domain.decide.ids import FAR, Ids, reservations
from registry.domain.errors import RegistryError
from registry.domain.fold.fold import apply
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import ID_MAX, Subject
from registry.domain.queries.id_space import BLOCK, FREE_MAX, FREE_MIN, IdRange, IdSpace, id_space, id_usage
from registry.domain.rows.memory_views import DictView
from tests.unit.small_registry import SmallRegistry, record

TOP = ID_MAX
LONG = "." + "c" * 130
_fresh = count()


def import_id(small: SmallRegistry, schema_id: int, subject: str = "", *, far: bool = True) -> None:
    subject = subject or f"i{schema_id}"
    small.mode(subject, "IMPORT")
    small.register(subject, record(f"I{next(_fresh)}"), schema_id=schema_id, version=1, far_ids=far)


def import_elsewhere(small: SmallRegistry, schema_id: int) -> None:
    """Write a version as another registry does: without a reservation."""
    subject = Subject.parse(f"foreign{schema_id}")
    value = values.schema_value(subject, 1, schema_id, record(f"F{schema_id}"))
    small.append(records.schema_key(subject, 1), value)


def new_id(small: SmallRegistry, context: str = "") -> int:
    number = next(_fresh)
    return small.place(f"{context}s{number}", record(f"R{number}"))[0]


def free(small: SmallRegistry, context: str = ".") -> list[tuple[int, int]]:
    return [tuple(each) for each in id_space(small.view, context).free]


def compacted(small: SmallRegistry) -> SmallRegistry:
    """Return a registry of another primary, whose log was compacted and has lost its tombstones."""
    found, latest = SmallRegistry(), {each.key: each for each in small.log}
    for each in sorted(latest.values(), key=lambda each: each.offset):
        if each.key is not None and each.value is not None:
            found.append(each.key, each.value)
    assert {row for row in found.view.rows() if row[0].startswith(b"N")} == {
        row for row in small.view.rows() if row[0].startswith(b"N")
    }
    return found


def test_ids_go_on_below_an_import_of_the_highest_id(small: SmallRegistry) -> None:
    assert new_id(small) == 1
    import_id(small, TOP)
    assert [new_id(small), new_id(small)] == [21, 22]
    small.purge(f"i{TOP}")
    assert new_id(compacted(small)) > 22


def test_ids_go_on_in_the_largest_free_range(small: SmallRegistry) -> None:
    import_id(small, 2_000)
    import_id(small, 2_000_000)
    import_id(small, TOP - 5_000)
    import_id(small, TOP)
    assert free(small) == [(1, 1_999), (2_020, 1_999_999), (2_000_040, TOP - 5_001), (TOP - 4_920, TOP - 1)]
    assert new_id(small) == 2_000_040


def test_ids_go_on_in_the_next_range_when_one_is_used_up(small: SmallRegistry) -> None:
    import_id(small, 3_000)
    import_id(small, TOP)
    almost_all = values.reservation_value(TOP - 2)
    small.append(records.reservation_key(records.free_range_name(".", TOP - 1)), almost_all)
    assert free(small) == [(1, 2_999), (TOP - 1, TOP - 1)]
    small.ids = Ids(batch=2_999)
    assert new_id(small) == 1
    small.ids = Ids()
    assert new_id(small) == TOP - 1
    code, message = small.refusal(Register("t", record("T")))
    assert code == 40982
    assert "registrar ids release" in message


def test_no_id_of_a_reservation_is_free(small: SmallRegistry) -> None:
    """Not even those that a primary reserved and never assigned: it may have been frozen, not dead."""
    new_id(small)
    small.ids = Ids()
    import_id(small, TOP)
    assert free(small) == [(21, TOP - 1)]


def test_a_small_jump_leaves_no_free_range(small: SmallRegistry) -> None:
    import_id(small, FREE_MIN)
    assert free(small) == []
    import_id(small, FREE_MIN + 20 + FREE_MIN)
    assert len(free(small)) == 1


def test_a_free_range_begins_above_what_others_wrote(small: SmallRegistry) -> None:
    import_elsewhere(small, 900)
    import_id(small, TOP)
    assert free(small) == [(901, TOP - 1)]


def test_ids_of_others_in_a_free_range_are_skipped(small: SmallRegistry) -> None:
    import_id(small, TOP)
    import_elsewhere(small, 77)
    assert new_id(small) == 78
    import_elsewhere(small, 80)
    assert [new_id(small), new_id(small)] == [79, 81]


def test_an_import_into_a_free_range_is_never_assigned_again(small: SmallRegistry) -> None:
    import_id(small, TOP)
    import_id(small, 5_500)
    assert free(small) == [(1, 4_999), (6_000, TOP - 1)]
    import_id(small, 5_501)
    assert b"ids" not in b"".join(each.key for each in small.last)
    import_id(small, 7)
    assert free(small) == [(1_000, 4_999), (6_000, TOP - 1)]


def test_an_import_into_a_range_does_not_move_the_next_id(small: SmallRegistry) -> None:
    import_id(small, TOP)
    assert new_id(small) == 1
    import_id(small, 50_000)
    assert new_id(small) == 2
    assert free(small) == [(41, 49_999), (51_000, TOP - 1)]


def test_only_the_largest_free_ranges_are_kept(small: SmallRegistry) -> None:
    for n in range(1, FREE_MAX + 5):
        import_id(small, n * 10_000 + n * n * 100)
    found = free(small)
    assert len(found) == FREE_MAX
    assert found[0][0] > 1
    assert len([key for key, _ in small.view.rows() if key.startswith(b"N")]) == FREE_MAX + 1


def test_contexts_with_long_names_have_no_free_ranges(small: SmallRegistry) -> None:
    import_id(small, TOP, f":{LONG}:s")
    assert free(small, LONG) == []
    assert small.refusal(Register(f":{LONG}:t", record("T")))[0] == 40982


def test_contexts_do_not_share_free_ranges(small: SmallRegistry) -> None:
    import_id(small, TOP, ":.c:s")
    import_id(small, TOP, ":.c1:s")
    small.ids = Ids()
    assert [new_id(small, ":.c:"), new_id(small, ":.c1:"), new_id(small)] == [1, 1, 1]
    assert free(small, ".") == []


def test_an_import_far_above_is_refused_to_those_who_may_not(small: SmallRegistry) -> None:
    assert new_id(small) == 1
    small.mode("s", "IMPORT")
    assert "permission mode on the whole context" in refused_import(small, 21 + FAR + 1)
    import_id(small, 21 + FAR, far=False)
    assert free(small) == [(21, 20 + FAR)]


def refused_import(small: SmallRegistry, schema_id: int, subject: str = "s") -> str:
    """Return the message of an import that needs permission on the whole context."""
    small.mode(subject, "IMPORT")
    command = Register(subject, record("Refused"), schema_id=schema_id, version=1, far_ids=False)
    code, message = small.refusal(command)
    assert code == 40382
    return message


def test_many_imports_each_a_little_higher_use_up_no_more_ids_than_one(small: SmallRegistry) -> None:
    import_id(small, FAR // 2, far=False)
    highest = id_space(small.view, ".").upto
    import_id(small, highest + FAR // 2, far=False)
    highest = id_space(small.view, ".").upto
    refused_import(small, highest + 1 + FREE_MIN)
    for _ in range(3):
        highest = id_space(small.view, ".").upto
        import_id(small, highest + FREE_MIN, far=False)
    used = id_space(small.view, ".").taken_count
    import_id(small, 10 * FAR)
    refused_import(small, 10 * FAR + FAR // 10)
    assert used < 5 * FREE_MIN


def test_no_import_splits_a_free_range_far_above_its_beginning(small: SmallRegistry) -> None:
    """Otherwise imports that halve ranges would soon leave only small ones."""
    import_id(small, TOP)
    refused_import(small, TOP // 2)
    refused_import(small, FAR + 2)
    import_id(small, FAR + 1, far=False)
    refused_import(small, 2 * FAR)
    import_id(small, id_space(small.view, ".").free[1].first + FREE_MIN - 1, far=False)
    import_id(small, TOP // 2)
    block = TOP // 2 // BLOCK * BLOCK
    assert free(small) == [(1, FAR - 1), (FAR + 2 * BLOCK, block - 1), (block + BLOCK, TOP - 1)]


def test_imports_that_use_up_the_number_of_free_ranges_may_skip_no_more(small: SmallRegistry) -> None:
    for _ in range(FREE_MAX):
        import_id(small, id_space(small.view, ".").upto + 1 + FREE_MIN, far=False)
    assert len(free(small)) == FREE_MAX
    refused_import(small, id_space(small.view, ".").upto + 1 + FREE_MIN)
    import_id(small, id_space(small.view, ".").upto + FREE_MIN, far=False)
    assert len(free(small)) == FREE_MAX


def test_the_limit_of_contexts_without_free_ranges_is_a_small_jump(small: SmallRegistry) -> None:
    refused_import(small, FREE_MIN + 1, f":{LONG}:s")
    import_id(small, FREE_MIN, f":{LONG}:s", far=False)


def test_a_released_id_at_the_top_is_given_back(small: SmallRegistry) -> None:
    assert new_id(small) == 1
    import_id(small, TOP)
    assert small.refusal(ReleaseIds(".", TOP, TOP))[0] == 40983
    small.delete(f"i{TOP}")
    assert small.refusal(ReleaseIds(".", TOP, TOP))[0] == 40983
    small.delete(f"i{TOP}", permanent=True)
    reply = small.submit(ReleaseIds(".", TOP, TOP))
    assert reply == {"context": ".", "highest": 1, "reserved": 20, "used": 20 / ID_MAX, "free": []}
    assert [row for row in small.view.rows() if row[0].startswith(b"N")] == [(b"N.\0", b"\x80\0\0\x14")]
    assert new_id(small) == 21
    assert small.submit(ReleaseIds(".", TOP, TOP))["reserved"] == 40
    assert small.last == []


def test_ids_between_reservations_can_be_released(small: SmallRegistry) -> None:
    small.append(records.reservation_key("."), values.reservation_value(TOP))
    import_id(small, 5_000)
    code, message = small.refusal(ReleaseIds(".", 100, 5_000))
    assert (code, "the id 5000 is in use" in message) == (40983, True)
    assert small.submit(ReleaseIds(".", 5_001, TOP))["reserved"] == 5_000
    assert small.submit(ReleaseIds(".", 100, 4_000))["free"] == [{"from": 100, "to": 4_000}]
    assert small.submit(ReleaseIds(".", 2_000, 4_999))["free"] == [{"from": 100, "to": 4_999}]
    assert small.submit(ReleaseIds(".", 1, 99))["free"] == [{"from": 1, "to": 4_999}]


def test_the_next_id_is_not_one_that_was_reserved_before_a_release(small: SmallRegistry) -> None:
    small.ids = Ids(batch=100)
    assert new_id(small) == 1
    small.submit(ReleaseIds(".", 2, 100))
    assert new_id(small) == 2
    assert small.last[0] == Entry(records.reservation_key("."), values.reservation_value(101))


def test_the_share_of_used_ids_counts_no_free_ones(small: SmallRegistry) -> None:
    import_id(small, TOP)
    usage = id_usage(small.view, ".", id_space(small.view, "."))
    assert (usage.highest, usage.reserved, usage.used) == (TOP, TOP, 1 / ID_MAX)
    small.append(records.reservation_key("."), values.reservation_value(0))
    assert id_usage(small.view, ".", id_space(small.view, ".")).used == 1.0


@pytest.mark.parametrize("made", ["new", "at the end", "of a free range", "free range that ends"])
def test_a_decision_that_is_made_again_gets_its_id_again(small: SmallRegistry, made: str) -> None:
    """Also where the reservation was shorter than usual."""
    small.ids = Ids(batch=40)
    if made != "new":
        import_id(small, TOP - 2 if made == "at the end" else TOP)
    if made == "free range that ends":
        range_up_to = records.free_range_name(".", TOP - 1)
        small.append(records.reservation_key(range_up_to), values.reservation_value(TOP - 5))
    before = small.ids.save()
    assigned = new_id(small)
    after = small.ids.save()
    new_id(small)
    small.ids.rewind(before, after)
    small.view.commit([(key, None) for key, _ in small.view.rows() if not key.startswith(b"N")])
    again = small.ids.grant(small.view, ".")
    assert (again.schema_id, again.entries) == (assigned, [])


def test_nothing_is_left_when_a_release_is_decided_again(small: SmallRegistry) -> None:
    new_id(small)
    before = small.ids.save()
    small.submit(ReleaseIds(".", 2, TOP))
    small.ids.rewind(before, small.ids.save())
    assert small.ids.grant(small.view, ".").schema_id == 2


@pytest.mark.parametrize("name", [".\tx", ".\t0000000000", f".\t{TOP:010}", ".\t0000000005"])
def test_reservations_that_make_no_range_mean_nothing(small: SmallRegistry, name: str) -> None:
    small.append(records.reservation_key("."), values.reservation_value(100))
    small.append(records.reservation_key(name), values.reservation_value(5))
    assert id_space(small.view, ".") == IdSpace(100)


# Few ids are left, and imports take those with which reservations begin.
LEFT, BATCH = 4_000, 1_000
IDS = st.one_of(st.just(TOP), st.integers(0, LEFT // BATCH - 1).map(lambda n: TOP - LEFT + n * BATCH + 1))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["import", "import and purge"]), IDS),
        st.tuples(st.sampled_from(["new", "new of another primary", "purge", "compact"]), st.just(0)),
    ),
    max_size=30,
)


def new_id_if_any(small: SmallRegistry) -> int:
    """Return a new id; 0 if all are used up."""
    try:
        return new_id(small)
    except RegistryError as error:
        return 0 if error.code == 40982 else -1


@given(STEPS)
def test_no_id_is_assigned_twice(steps: list[tuple[str, int]]) -> None:
    small, taken, imported = SmallRegistry(), set[int](), list[int]()
    small.append(records.reservation_key("."), values.reservation_value(TOP - LEFT))
    small.ids = Ids(BATCH)
    for step, number in steps:
        if step.startswith("import") and number not in taken:
            import_id(small, number)
            imported.append(number)
            taken.add(number)
        if step.endswith("purge") and imported:
            small.purge(f"i{imported.pop()}")
        if step == "compact":
            small = compacted(small)
        if step in ("compact", "new of another primary"):
            small.ids = Ids(BATCH)
        if step.startswith("new") and (assigned := new_id_if_any(small)):
            assert assigned not in taken
            taken.add(assigned)


RANGES = st.sets(st.integers(1, 60), min_size=2, max_size=12).map(
    lambda found: tuple(IdRange(*pair) for pair in batched(sorted(found)))
)
SPACES = st.builds(lambda free, more: IdSpace(free[-1].last + more, free), RANGES, st.integers(1, 9))


def batched(found: list[int]) -> list[tuple[int, int]]:
    """Return bounds of ranges that do not touch."""
    pairs = list(zip(found[::2], found[1::2], strict=False))
    return [pair for n, pair in enumerate(pairs) if n == 0 or pair[0] > pairs[n - 1][1] + 1]


def taken_in(space: IdSpace) -> set[int]:
    free = {schema_id for each in space.free for schema_id in range(each.first, each.last + 1)}
    return set(range(1, space.upto + 1)) - free


def folded(entries: list[Entry]) -> DictView:
    view = DictView()
    for offset, entry in enumerate(entries):
        view.commit(apply(view, Record(offset, 0, entry.key, entry.value)))
    return view


@given(SPACES, st.integers(1, 70), st.integers(0, 20))
def test_no_beginning_of_the_records_frees_more_than_all_of_them(
    space: IdSpace, first: int, more: int
) -> None:
    some, ids = IdRange(first, first + more), {*range(first, first + more + 1)}
    beginning, later = reservations(".", IdSpace(0), space), reservations(".", IdSpace(0), IdSpace(5_000))
    skipped = IdRange(space.upto + 1, space.upto + FREE_MIN)
    extended = space.with_taken(skipped.last + 1 + more, skipped)
    assert id_space(folded(beginning), ".") == space
    for after in (space.without(some), space.with_released(some), extended):
        entries = reservations(".", space, after)
        for written in range(len(entries) + 1):
            seen = id_space(folded([*beginning, *entries[:written]]), ".")
            assert taken_in(seen) >= taken_in(space) & taken_in(after)
            then = id_space(folded([*beginning, *entries[:written], *later]), ".")
            assert taken_in(then) == taken_in(seen) | {*range(seen.upto + 1, 5_001)}
        assert seen == after
    assert taken_in(space.without(some)) == taken_in(space) | (ids & {*range(space.upto + 1)})
    assert taken_in(space.with_released(some)) == taken_in(space) - ids
