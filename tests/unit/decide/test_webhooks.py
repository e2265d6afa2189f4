"""Webhooks: what is refused, what is written, and how positions move."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.domain.commands import (
    AdvanceWebhook,
    DeleteWebhook,
    DisableWebhook,
    MoveWebhook,
    PutWebhook,
    RotateWebhook,
    repeatable,
)
from registry.domain.decide.own_records import WEBHOOKS_MAX
from registry.domain.log_format import records
from registry.domain.log_format.webhooks import Webhook, position, webhook, webhooks
from tests.unit.small_registry import SmallRegistry

URL = "https://receiver.example/events"


def hook(small: SmallRegistry, name: str = "h") -> Webhook:
    found = webhook(small.view, name)
    assert found is not None
    return found


def at(small: SmallRegistry, name: str = "h") -> int:
    return position(small.view, hook(small, name))


def put(name: str = "h", url: str = URL, **more: Any) -> PutWebhook:
    return PutWebhook(name, url, id="00ff", key="ab12", **more)


def test_a_new_webhook_begins_after_its_own_records() -> None:
    small = SmallRegistry()
    small.level(None, "FULL")
    reply = small.submit(put(kinds=["mode_set", "config_set", "mode_set"], subject_prefix=":*:orders"))
    assert reply == {
        "name": "h", "url": URL, "kinds": ["config_set", "mode_set"], "subjectPrefix": ":*:orders",
        "enabled": True, "id": "00ff", "rotations": 0,
    }  # fmt: skip
    assert at(small) == len(small.log) == 3


def test_a_new_webhook_may_begin_earlier() -> None:
    small = SmallRegistry()
    small.submit(put(start=0))
    assert at(small) == 0


def test_a_change_keeps_identity_secret_and_position() -> None:
    small = SmallRegistry()
    small.submit(put())
    small.submit(AdvanceWebhook("h", "00ff", 2, 7))
    reply = small.submit(PutWebhook("h", "https://other.example", start=0, id="aaaa", key="cc"))
    assert (reply["id"], hook(small).key, hook(small).url) == ("00ff", "ab12", "https://other.example")
    assert at(small) == 7
    small.submit(PutWebhook("h", "https://other.example", id="bbbb"))
    assert small.last == []
    assert repeatable(put())


def test_deletion_leaves_no_trace_and_a_successor_has_another_identity() -> None:
    small = SmallRegistry()
    small.submit(put(start=0))
    small.submit(DeleteWebhook("h"))
    assert dict(small.view.rows()) == {}
    assert small.refusal(DeleteWebhook("h")) == (40481, "Webhook 'h' not found.")
    assert small.submit(PutWebhook("h", URL, id="0a0a"))["id"] == "0a0a"


def test_a_rotation_counts_and_remembers_when_and_with_which_setting() -> None:
    small = SmallRegistry()
    small.submit(put())
    reply = small.submit(RotateWebhook("h", "cd34", 5_000))
    assert (reply["rotations"], reply["rotated"], hook(small).key) == (1, 5_000, "cd34")
    assert small.refusal(RotateWebhook("x", "cd34", 1))[0] == 40481


def test_a_position_moves_only_from_where_the_delivery_began() -> None:
    small = SmallRegistry()
    small.submit(put())
    for stale in (
        AdvanceWebhook("h", "00ff", 1, 9),
        AdvanceWebhook("h", "ffff", 2, 9),
        AdvanceWebhook("x", "00ff", 2, 9),
    ):
        small.submit(stale)
        assert small.last == []
    small.submit(AdvanceWebhook("h", "00ff", 2, 9))
    assert at(small) == 9
    small.submit(MoveWebhook("h", 4))
    assert at(small) == 4
    small.submit(MoveWebhook("h"))
    assert at(small) == len(small.log)
    assert small.refusal(MoveWebhook("x"))[0] == 40481


def test_a_webhook_is_disabled_with_a_reason_until_it_is_put_again() -> None:
    small = SmallRegistry()
    small.submit(put())
    small.submit(DisableWebhook("h", hook(small).offset + 1, "late"))
    assert hook(small).enabled
    small.submit(DisableWebhook("h", hook(small).offset, "gone"))
    assert (hook(small).enabled, hook(small).reason) == (False, "gone")
    small.submit(DisableWebhook("h", hook(small).offset, "again"))
    assert hook(small).reason == "gone"
    small.submit(put())
    assert (hook(small).enabled, hook(small).reason) == (True, "")


def test_their_number_is_limited() -> None:
    small = SmallRegistry()
    for number in range(WEBHOOKS_MAX):
        small.submit(put(f"h{number:03}"))
    assert small.refusal(put("more"))[0] == 42283
    small.submit(put("h000", "https://other.example"))
    assert [each.name for each in webhooks(small.view)][:2] == ["h000", "h001"]


@pytest.mark.parametrize("name", ["", ".", "..", "-a", "a/b", "a b", "é", "x" * 65])
def test_other_names_are_refused(name: str) -> None:
    assert SmallRegistry().refusal(put(name))[0] == 42282


@pytest.mark.parametrize(
    "url",
    [
        "", "receiver.example", "ftp://receiver.example", "https://", "https:///path", "https://a:0/",
        "https://a:99999/", "https://[::1/", "https://user:secret@a/", "https://user@a/", "https://a/#part",
        "https://a/ b", "https://é.example/", "https://a/\n", "https://a/" + "x" * 2000,
    ],
)  # fmt: skip
def test_other_urls_are_refused(url: str) -> None:
    code, message = SmallRegistry().refusal(put(url=url))
    assert (code, message.startswith("Invalid webhook: its url ")) == (42282, True)
    assert "secret" not in message


def test_unknown_kinds_and_long_prefixes_are_refused() -> None:
    small = SmallRegistry()
    assert small.refusal(put(kinds=["made_up"]))[1].startswith(
        "Invalid webhook: unknown kind of event 'made_up'"
    )
    assert small.refusal(put(subject_prefix="x" * 1001))[0] == 42282


def test_records_of_webhooks_are_no_ops_for_other_registries() -> None:
    small = SmallRegistry()
    small.submit(put())
    keys = [orjson.loads(entry.key) for entry in small.last]
    assert [(key["keytype"], key["magic"], key["name"]) for key in keys] == [("NOOP", 0, "h")] * 2
    assert [entry.value for entry in small.last] == [
        b'{"url":"https://receiver.example/events","id":"00ff","key":"ab12"}',
        b"{}",
    ]
    assert small.last[0].key == records.webhook_key("h")
