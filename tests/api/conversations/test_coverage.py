"""The conversations cover every resource of Confluent's servers."""

from __future__ import annotations

from pathlib import Path

from registry.api import request_target
from registry.api.routes import operations
from tests.api.conversations.reading import Exchange, conversations

FILES = [path for path in Path(__file__).parent.glob("*.md") if path.name != "README.md"]
# Only Registrar has these, although they negotiate media types as Confluent's do.
ADDITIONS = {"/compatibility/explain", "/subjects/{subject}/versions/{version}/explain"}


def exchanges() -> list[Exchange]:
    return [each for path in FILES for found in conversations(path) for each in found.exchanges]


def segments_of(exchange: Exchange) -> tuple[str, ...]:
    """Return the decoded segments of a request's path, without its context."""
    path, _, query = exchange.target.encode().partition(b"?")
    return request_target.in_context(exchange.method, request_target.parse(path, query)).segments


def leads_to(segments: tuple[str, ...], template: str) -> bool:
    parts = [part for part in template.split("/") if part]
    return len(parts) == len(segments) and all(
        part.startswith("{") or part == segment for part, segment in zip(parts, segments, strict=True)
    )


def test_there_are_at_least_a_thousand_requests() -> None:
    assert len(exchanges()) >= 1000


def test_every_operation_of_confluents_succeeds_in_a_conversation() -> None:
    answered = [(each.method, segments_of(each)) for each in exchanges() if 200 <= each.answer.status < 300]
    wanted = [each for each in operations("0", None) if not each.own and each.path not in ADDITIONS]
    missing = [
        f"{each.method} {each.path}"
        for each in wanted
        if not any(method == each.method and leads_to(segments, each.path) for method, segments in answered)
    ]
    assert len(wanted) > 40
    assert missing == []
