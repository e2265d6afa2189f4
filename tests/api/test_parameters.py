"""Query parameters and numbers, as Confluent reads them."""

from __future__ import annotations

import pytest

from registry.api.parameters import arguments, flag, limit, number, offset, path_number, word, words
from registry.domain.errors import RegistryError

PARAMETERS = (flag("deleted", ""), number("limit", "", -1), word("format", ""), words("key", ""))


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("true", True),
        ("TRUE", True),
        ("tRuE", True),
        ("1", False),
        ("yes", False),
        ("", False),
        (" true", False),
    ],
)
def test_only_the_word_true_is_true(given: str, value: bool) -> None:
    assert arguments(PARAMETERS, [("deleted", given)])["deleted"] is value


def test_defaults_stand_for_what_is_absent_and_unknown_names_are_ignored() -> None:
    assert arguments(PARAMETERS, [("other", "1")]) == {"deleted": False, "limit": -1, "format": "", "key": ()}


def test_the_first_of_equal_names_counts_and_lists_keep_all() -> None:
    found = arguments(PARAMETERS, [("format", "a"), ("format", "b"), ("key", "x"), ("key", "y")])
    assert (found["format"], found["key"]) == ("a", ("x", "y"))


def test_an_empty_number_is_the_default() -> None:
    assert arguments(PARAMETERS, [("limit", "")])["limit"] == -1


@pytest.mark.parametrize("given", ["abc", "1.5", "2147483648", "-2147483649", "٣", "1" * 5000, " 1"])
def test_what_is_no_int_does_not_exist(given: str) -> None:
    for call in (lambda: arguments(PARAMETERS, [("limit", given)]), lambda: path_number(given)):
        with pytest.raises(RegistryError) as caught:
            call()
        assert (caught.value.code, caught.value.message) == (404, "HTTP 404 Not Found")


def test_a_negative_offset_is_422() -> None:
    with pytest.raises(RegistryError) as caught:
        offset({"offset": -1})
    assert caught.value.code == 422


@pytest.mark.parametrize(("given", "found"), [(-1, 4), (0, 4), (1, 1), (4, 4), (5, 4)])
def test_a_limit_beyond_the_most_is_the_most(given: int, found: int) -> None:
    assert limit({"limit": given}, 4) == found
