"""Messages of webhooks: CloudEvents with the headers of Standard Webhooks."""

from __future__ import annotations

import msgspec
import orjson

from registry.domain.events import Event, Kind
from registry.domain.log_format.webhooks import Webhook
from registry.webhooks.message import Messages, Signer, headers

EVENT = Event(
    42, 1_700_000_000_123, Kind.VERSION_REGISTERED, context=".", subject="orders-value", version=3, id=7
)


def test_an_event_becomes_a_cloud_event() -> None:
    assert orjson.loads(Messages("cluster/_schemas/id with space").of(EVENT).body) == {
        "specversion": "1.0",
        "id": "42",
        "source": "urn:registrar:cluster/_schemas/id%20with%20space",
        "type": "registrar.version_registered",
        "subject": "orders-value",
        "time": "2023-11-14T22:13:20.123Z",
        "datacontenttype": "application/json",
        "data": {
            "offset": 42, "time": 1_700_000_000_123, "kind": "version_registered", "context": ".",
            "subject": "orders-value", "version": 3, "id": 7,
        },
    }  # fmt: skip


def test_a_cloud_event_names_the_principal_if_it_is_known() -> None:
    found = orjson.loads(Messages("log").of(msgspec.structs.replace(EVENT, principal="alice")).body)
    assert (found["principal"], found["data"]["principal"]) == ("alice", "alice")
    unknown = orjson.loads(Messages("log").of(EVENT).body)
    assert "principal" not in unknown
    assert "principal" not in unknown["data"]


def test_an_event_of_a_time_that_no_calendar_has_is_sent_without_one() -> None:
    for time in (2**62, -(2**62), -(2**63)):
        body = Messages("log").of(Event(1, time, Kind.MODE_SET, context=".")).body
        assert "time" not in orjson.loads(body)
        assert orjson.loads(body)["data"]["time"] == time


def test_what_is_about_no_subject_has_none() -> None:
    found = orjson.loads(Messages("log").of(Event(1, 0, Kind.EPOCH_STARTED)).body)
    assert "subject" not in found


def test_message_ids_are_the_same_in_each_attempt_and_differ_by_event_and_log() -> None:
    here, elsewhere = Messages("log"), Messages("log again")
    assert here.of(EVENT) == here.of(EVENT)
    ids = {here.of(EVENT).id, elsewhere.of(EVENT).id, here.of(Event(43, 0, Kind.EPOCH_STARTED)).id}
    assert len(ids) == 3
    assert not any("." in each for each in ids), "a dot separates the signed parts"


def test_a_ping_says_that_it_is_one() -> None:
    message = Messages("log").ping("h", "0a1b", 1_000)
    found = orjson.loads(message.body)
    assert (message.id, found["type"], found["data"]) == ("ping_0a1b", "registrar.ping", {"webhook": "h"})


def test_an_attempt_carries_its_own_time() -> None:
    message, signer = Messages("log").of(EVENT), Signer("s")
    webhook = Webhook(url="https://a", id="00", key=signer.fingerprint)
    found = headers(message, webhook, signer, 5_999, "1.2")
    assert found == {
        "content-type": "application/cloudevents+json; charset=UTF-8",
        "user-agent": "registrar/1.2",
        "webhook-id": message.id,
        "webhook-timestamp": "5",
        "webhook-signature": signer.signatures(webhook, 5_999, message.id, message.body),
    }
