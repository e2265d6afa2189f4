"""The parser's limit and what it remembers."""

from __future__ import annotations

import pytest

from registry.domain.parser import Parser, TooMuchText

TEXT = '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}'


def test_no_more_is_parsed_than_is_allowed() -> None:
    parser = Parser()
    parser.allow(len(TEXT) - 1)
    with pytest.raises(TooMuchText):
        parser.parse("AVRO", TEXT).canonical  # noqa: B018 (reading it raises)
    parser.allow(len(TEXT))
    assert parser.parse("AVRO", TEXT).canonical == TEXT
    with pytest.raises(TooMuchText):
        parser.parse("AVRO", '"int"').canonical  # noqa: B018 (as above)


def test_what_is_remembered_costs_nothing() -> None:
    parser = Parser()
    known = parser.parse("AVRO", TEXT)
    parser.allow(0)
    assert parser.parse("AVRO", TEXT) is known
