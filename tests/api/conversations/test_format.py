"""The reader of conversations and the comparison detect errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.conversations.matching import Difference, Placeholders
from tests.api.conversations.reading import Answer, conversations

TEXT = """# Title
Settings: a = 1 | 2; b = x

## First
```http
POST /s?x=%20
Accept: text/plain
@encoding utf-16-le
{"a":
  1}
=> 200
Vary: accept-encoding
{"b": 2}

GET /t
=> 404 40401 Subject 't' not found.
released: 500 500 No
```
Settings: b = y

## Second
```http
GET /u
=> 200 ...
```
"""


def test_conversations_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(TEXT, encoding="utf-8")
    first, second = conversations(path)
    assert (first.title, second.title) == ("First", "Second")
    assert first.settings == [{"a": "1", "b": "y"}, {"a": "2", "b": "y"}]
    assert second.settings == [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]
    post, get = first.exchanges
    assert (post.place, post.method, post.target) == ("a.md:6", "POST", "/s?x=%20")
    assert (post.headers, post.encoding) == ([("Accept", "text/plain")], "utf-16-le")
    assert post.body == '{"a":\n  1}'
    assert post.answer == Answer(200, headers=[("Vary", "accept-encoding")], body='{"b": 2}')
    assert get.answer == Answer(404, 40401, "Subject 't' not found.")
    assert second.exchanges[0].answer == Answer(200, body="...")


@pytest.mark.parametrize(
    "block",
    ["GET x\n=> 200", "GET /x", "GET /x\n=> OK", "GET /x\n=> 404 404 No\n{}", "GET /x\n=> 200\n```\n```http"],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path: Path, block: str) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"## A\n```http\n{block}" + "\n```" * (block.count("```") == 0), encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.md"):
        list(conversations(path))


UUID = "0e3b8f5c-77b4-4f50-9d1e-4a2d4a1f4a10"


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"id": "<id>", "also": "<id>"}, {"id": 3, "also": 3}),
        ({"guid": "<guid-a>", "other": "<guid-b>"}, {"guid": UUID, "other": UUID}),
        (["<time>", "<any>", "<b*3>"], [1_700_000_000_000, {}, "bbb"]),
        ("at <id>: <text-why>", "at 7: it is so"),
        ("<other> stays", "<other> stays"),
    ],
)
def test_what_is_alike_is_found_alike(expected: Any, actual: Any) -> None:
    Placeholders().compare(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"id": "<id>", "also": "<id>"}, {"id": 3, "also": 4}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1], [1, 2]),
        (1, True),
        (None, False),
        ("<guid>", "x"),
        ("<id>", "3"),
        ("<time>", 7),
        ("a <text> c", "a b d"),
    ],
)
def test_what_differs_is_found(expected: Any, actual: Any) -> None:
    with pytest.raises(Difference):
        Placeholders().compare(expected, actual)


def test_values_of_placeholders_go_into_requests() -> None:
    placeholders = Placeholders()
    with pytest.raises(Difference):
        placeholders.filled("/schemas/ids/<id>")
    placeholders.compare(["<id>", "<text-a>"], [3, 'a"b'])
    assert placeholders.filled('/schemas/ids/<id> "<text-a>" <x*3>') == '/schemas/ids/3 "a\\"b" xxx'
