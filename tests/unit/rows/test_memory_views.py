"""Views in memory, compared with a sorted dict."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from registry.domain.rows.memory_views import DictView, OverlayView, RememberingView
from registry.domain.rows.view import Change, View, scan, scan_back
from tests.support.counting_view import CountingView

keys = st.binary(min_size=1, max_size=2).map(lambda raw: bytes(each % 4 for each in raw))
changes = st.lists(st.tuples(keys, st.none() | st.binary(max_size=1)), max_size=12)
probes = [
    b"",
    *(bytes((a,)) for a in range(5)),
    *(bytes((a, b)) for a in range(4) for b in range(4)),
    b"\3\3\0",
]


class Views(RuleBasedStateMachine):
    """A dict view, an overlay on it and an overlay on that, changed and read in any order."""

    @initialize(rows=st.dictionaries(keys, st.binary(max_size=1)))
    def begin(self, rows: dict[bytes, bytes]) -> None:
        self.base = DictView(rows.items())
        self.lower, self.changes = OverlayView(self.base), dict[bytes, bytes | None]()
        self.upper = OverlayView(self.lower, self.changes)
        self.expected = [dict(rows), dict(rows), dict(rows)]
        self.laid: list[dict[bytes, bytes | None]] = [{}, {}]

    @rule(said=changes)
    def commit_to_the_upper(self, said: list[Change]) -> None:
        self.upper.commit(said)
        self.laid[1].update(said)

    @rule(said=changes)
    def change_the_callers_dict(self, said: list[Change]) -> None:
        self.changes.update(said)
        self.laid[1].update(said)

    @rule(said=changes)
    def commit_to_the_lower(self, said: list[Change]) -> None:
        self.lower.commit(said)
        self.laid[0].update(said)

    @rule(said=changes)
    def commit_to_the_base(self, said: list[Change]) -> None:
        self.base.commit(said)
        self.expected[0] = _changed(self.expected[0], dict(said))

    @rule(said=changes)
    def clear_and_begin_a_new_batch(self, said: list[Change]) -> None:
        self.upper.clear()
        self.upper.commit(said)
        self.laid[1] = dict(said)

    @invariant()
    def all_reads_agree(self) -> None:
        self.expected[1] = _changed(self.expected[0], self.laid[0])
        self.expected[2] = _changed(self.expected[1], self.laid[1])
        for view, rows in zip((self.base, self.lower, self.upper), self.expected, strict=True):
            _agree(view, rows)
        assert dict(self.base.rows()) == self.expected[0]


def _changed(rows: dict[bytes, bytes], said: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {key: value for key, value in (rows | said).items() if value is not None}


def _agree(view: View, rows: dict[bytes, bytes]) -> None:
    ordered = sorted(rows.items())
    for probe in probes:
        assert view.get(probe) == rows.get(probe)
        assert view.seek(probe) == next((row for row in ordered if row[0] >= probe), None)
        assert view.seek_back(probe) == next((row for row in reversed(ordered) if row[0] < probe), None)
    for prefix in (b"\0", b"\1", b"\3"):
        found = [row for row in ordered if row[0].startswith(prefix)]
        assert list(scan(view, prefix)) == found
        assert list(scan_back(view, prefix)) == found[::-1]


TestViews = Views.TestCase
TestViews.settings = settings(max_examples=30)


def test_a_view_of_many_deleted_rows_forgets_them() -> None:
    view = DictView((number.to_bytes(2, "big"), b"x") for number in range(1000))
    view.commit((number.to_bytes(2, "big"), None) for number in range(999))
    assert view.seek(b"") == ((999).to_bytes(2, "big"), b"x")
    assert len(view._rows) < 100


def test_a_row_below_is_remembered_and_covered_by_a_change() -> None:
    below = CountingView([(b"a", b"1"), (b"long", bytes(2_000))])
    view = RememberingView(below)
    assert [view.get(key) for key in (b"a", b"a", b"none", b"none")] == [b"1", b"1", None, None]
    assert below.reads == 2
    view.commit([(b"a", b"2"), (b"none", b"3")])
    assert (view.get(b"a"), view.get(b"none")) == (b"2", b"3")
    view.commit([(b"a", None)])
    assert view.get(b"a") is None
    assert below.reads == 2
    assert view.get(b"long") == view.get(b"long") == bytes(2_000)  # too large to be remembered
    assert below.reads == 4
