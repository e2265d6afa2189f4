"""The words that a search finds."""

from __future__ import annotations

import pytest

from registry.domain.schemas.words import begins, name_words, query_words, ranges, run_words, runs_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("customerEmail", ("customer", "email", "customeremail")),
        ("CUSTOMER_EMAIL", ("customer", "email", "customeremail")),
        ("HTTPServer2Go", ("http", "server2", "go", "httpserver2go")),
        ("order", ("order",)),
        ("", ()),
        ("_.-", ()),
        ("Straße", ("strasse",)),
        ("cafe\u0301Noir", ("café", "noir", "cafénoir")),  # an accent of its own is no border
        ("pay\u200bment", ("pay", "ment", "payment")),
        ("\uff21\uff22\uff23", ("abc",)),
        ("x" * 40, ("x" * 32,)),
        ("longFirst" + "X" * 40, ("long", "first", "x" * 32, ("longfirst" + "x" * 40)[:32])),
        ("顧客ID", ("顧客", "客", "id", "顧客id")),
    ],
)
def test_names_have_words_and_are_one(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


def test_texts_have_words_without_single_letters() -> None:
    found = [word for run in runs_of(["A customer's eMail,", "x 電話"]) for word in run_words(run)]
    assert found == ["customer", "mail", "電話", "話"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Email email  E-MAIL", ("email", "e", "mail")),
        ("顧客メール", ("顧客", "メー", "ール")),
        ("客", ("客",)),
        ("* ? %", ()),
    ],
)
def test_queries_have_each_word_once(query: str, words: tuple[str, ...]) -> None:
    assert query_words(query) == words


def test_a_letter_is_a_whole_word_and_a_character_of_a_text_without_borders_is_not() -> None:
    assert begins("email", "em")
    assert not begins("email", "e")
    assert begins("e", "e")
    assert begins("顧客", "顧")


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("customerEmail", "ema", [(8, 11)]),
        ("顧客メールアドレス", "メール", [(2, 5)]),
        ("ab cd", "abcd", [(0, 5)]),
        ("cafe\u0301 noir", "noir", [(0, 10)]),  # places have moved: all of it
        ("email and email", "email", [(0, 5), (10, 15)]),
        ("nothing", "email", []),
    ],
)
def test_words_are_found_in_places_that_do_not_overlap(
    text: str, query: str, found: list[tuple[int, int]]
) -> None:
    assert ranges(text, query_words(query)) == found
