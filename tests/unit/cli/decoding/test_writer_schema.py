"""The schema of a message with all that it refers to, from a registry's answers."""

from __future__ import annotations

from typing import Any

import pytest

from registry.cli.decoding.frame import CannotDecode
from registry.cli.decoding.message import WriterSchema, writer_schema
from registry.domain.schemas import Dependency


def answer(text: str, *references: str) -> dict[str, Any]:
    return {
        "schema": text,
        "references": [{"name": f"{each}.n", "subject": each, "version": 1} for each in references],
    }


def test_references_come_before_what_refers_to_them() -> None:
    stored = {"a": answer("A", "c"), "b": answer("B", "c", "a"), "c": answer("C")}
    asked: list[str] = []

    def version(subject: str, number: int) -> dict[str, Any]:
        assert number == 1
        asked.append(subject)
        return stored[subject]

    found = writer_schema(answer("T", "a", "b"), version)
    assert found == WriterSchema(
        "AVRO", "T", (Dependency("c.n", "C"), Dependency("a.n", "A"), Dependency("b.n", "B"))
    )
    assert asked == ["a", "c", "b"]


def test_circles_end() -> None:
    stored = {"a": answer("A", "b"), "b": answer("B", "a")}
    found = writer_schema(answer("T", "a"), lambda subject, _: stored[subject])
    assert {each.text for each in found.dependencies} == {"A", "B"}


def test_references_are_bounded() -> None:
    def version(subject: str, number: int) -> dict[str, Any]:
        return answer("X", f"{subject}x")

    with pytest.raises(CannotDecode, match="more than 1000 others"):
        writer_schema(answer("T", "a"), version)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"schemaType": "XML", "schema": "<a/>"}, "of the type XML cannot be decoded"),
        ({}, "no schema"),
        ({"schema": "T", "references": [{"name": "a"}]}, "without name, subject and version"),
    ],
)
def test_other_answers_are_refused(found: dict[str, Any], text: str) -> None:
    with pytest.raises(CannotDecode, match=text):
        writer_schema(found, lambda subject, number: answer("X"))
