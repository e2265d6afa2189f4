"""The API answers as Confluent's released server does, in every conversation of this folder."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import orjson
import pytest

from registry.base.config.loading import Settings, table
from registry.encoder.keyset import Keyset
from registry.host.public_server import api_settings
from registry.security.watched_file import PoliciesFile
from tests.api.conversations.matching import Difference, Placeholders
from tests.api.conversations.reading import Answer, Choice, Conversation, Exchange, conversations, of_version
from tests.api.driver import Api, ListBackend, Reply

FILES = sorted(path for path in Path(__file__).parent.glob("*.md") if path.name != "README.md")
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


def cases() -> list[object]:
    return [
        pytest.param(found, choice, id=f"{path.stem}: {found.title}{_suffix(choice)}")
        for path in FILES
        for found in conversations(path)
        for choice in found.settings
    ]


def _suffix(choice: Choice) -> str:
    return "".join(f" [{name}={value}]" for name, value in choice.items())


def registry(choice: Choice) -> Api:
    """An empty registry with these settings."""
    kinds = {setting.name: setting.kind for setting in table()}
    settings = dataclasses.replace(
        Settings(), **{name: kinds[name].read(value) for name, value in choice.items()}
    )
    given = api_settings(settings, "0", PoliciesFile(""))
    # Records are newer than the clock that requests see, so that nothing is created after its record.
    first_ts = time.time_ns() // 1_000_000 + 3_600_000
    cipher = Keyset.new() if settings.metadata_encoder_secret else None
    return Api(ListBackend(given, first_ts=first_ts, cipher=cipher), given)


def sent(api: Api, exchange: Exchange, placeholders: Placeholders) -> Reply:
    body = placeholders.filled(exchange.body).encode(exchange.encoding)
    headers = list(exchange.headers)
    if body and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", MEDIA_TYPE))
    return api.request(exchange.method, placeholders.filled(exchange.target), body, headers)


def compare(expected: Answer, reply: Reply, placeholders: Placeholders, version: str) -> None:
    if reply.status != expected.status:
        raise Difference(f"expected the status {expected.status}, not {reply.status}")
    for name, value in expected.headers:
        placeholders.compare(value, reply.headers.get(name.lower()), name)
    if expected.code is not None:
        said = {"error_code": expected.code, "message": expected.message}
        placeholders.compare(said, reply.json)
    elif expected.body.startswith("text: "):
        placeholders.compare(expected.body.removeprefix("text: "), reply.body.decode())
    elif expected.body and expected.body != "...":
        placeholders.compare(of_version(orjson.loads(expected.body), version), reply.json)
    elif not expected.body and reply.body:
        raise Difference("expected no body")


def check_unchanged(api: Api, reply: Reply, records: int) -> None:
    if reply.status >= 400 and len(api.backend.log) != records:
        raise Difference("a refusal wrote records")


@pytest.mark.parametrize(("conversation", "choice"), cases())
def test_answers_are_those_of_the_released_server(conversation: Conversation, choice: Choice) -> None:
    placeholders = Placeholders()
    with registry(choice) as api:
        for exchange in conversation.exchanges:
            reply: Reply | None = None
            try:
                before = len(api.backend.log)
                reply = sent(api, exchange, placeholders)
                compare(exchange.answer, reply, placeholders, choice.get("confluent_version", ""))
                check_unchanged(api, reply, before)
            except Difference as difference:
                pytest.fail(
                    f"{exchange.place}: {exchange.method} {exchange.target}\n{difference}\n"
                    f"answer: {reply and (reply.status, reply.body.decode())}",
                    pytrace=False,
                )


def test_every_conversation_says_something() -> None:
    found = [each for path in FILES for each in conversations(path)]
    assert found
    assert [each.title for each in found if not each.exchanges] == []
