"""Numbers and values as Java prints them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.schemas.avro.attributes import is_exact, read, read_exactly
from registry.domain.schemas.json_text import double, print_json, quote_json

TEXTS = st.text(alphabet=st.characters(blacklist_categories=("Cs",)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back(value):
    text = double(value)

    assert float(text) == value
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert "." in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (5e-324, "4.9E-324"),
    ],
)
def test_odd_doubles(value, text):
    """Doubles are printed as Java prints them, at the edges of their range too."""
    assert double(value) == text


@given(JSON)
def test_what_is_printed_reads_back(value):
    assert json.loads(print_json(value)) == value
    assert print_json(read_exactly(print_json(value))) == print_json(value)


@given(JSON)
def test_both_ways_of_reading_agree(value):
    text = json.dumps(value, indent=1)

    assert not is_exact(read(text)) or read(text) == read_exactly(text)


@given(TEXTS)
def test_a_string_reads_back_and_holds_no_control_character(text):
    assert json.loads(quote_json(text)) == text
    assert min(quote_json(text)) >= " "


def test_comments_are_blanks_outside_of_strings_only():
    assert read('/*a*/{"x"//b\n:/**/["/*c*/","//d"]}') == {"x": ["/*c*/", "//d"]}


def test_the_last_of_equal_members_counts_in_the_place_of_the_first():
    assert list(read_exactly('{"a":1,"b":2,"a":3}').items()) == [("a", 3), ("b", 2)]
    assert list(read('{"a":1,"b":2,"a":3}').items()) == [("a", 3), ("b", 2)]
