"""Webhooks of a running registry, and receivers that fail, hang, want no more, or outlive the registry."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.process.cli.running_verbs import verb
from tests.support.receiver import Received, Receiver, Reply
from tests.support.running import PATIENT, Registry, until

SECRET = "a secret of this test only, long enough"
FLAGS = (
    *("--readers", "1", "--webhooks-http", "true", "--webhooks-allow", "localhost"),
    *("--webhooks-timeout-s", "1", "--webhooks-retry-max-s", "0.1"),
)
FAR_S = 30.0


class Webhooks:
    """A registry, asked about its webhooks."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.http = httpx.Client(base_url=registry.url, timeout=PATIENT)

    def put(self, name: str, receiver: Receiver | str, **members: Any) -> dict[str, Any]:
        url = receiver if isinstance(receiver, str) else f"{receiver.url}/hook"
        return self.answer("PUT", f"/{name}", {"url": url, "subjectPrefix": f"{name}-", **members})

    def answer(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, f"/admin/webhooks{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def refusal(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        answer = self.http.request(method, f"/admin/webhooks{path}", json=body)
        return answer.status_code, answer.json()["error_code"]

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.answer("GET", f"/{name}")
        return found

    def register(self, *subjects: str) -> None:
        for subject in subjects:
            body = {"schema": '"string"'}
            assert self.http.post(f"/subjects/{subject}/versions", json=body).status_code == 200

    def until_state(self, name: str, **members: Any) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            found = self.get(name)
            return found if members.items() <= found.items() else None

        found: dict[str, Any] = until(reached, FAR_S, f"{name} to show {members}")
        return found


@contextmanager
def started(data: Path, secret: str = SECRET) -> Iterator[Webhooks]:
    found = Webhooks(Registry(data, *FLAGS, environment={"REGISTRAR_WEBHOOKS_SECRET": secret}).wait())
    with found.http:
        try:
            yield found
        finally:
            found.registry.stop()


@pytest.fixture(scope="module")
def webhooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhooks]:
    with started(tmp_path_factory.mktemp("webhooks") / "data") as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


def until_received(receiver: Receiver, count: int) -> list[Received]:
    until(lambda: len(receiver.received) >= count, FAR_S, f"{count} requests")
    return receiver.received


def ids(receiver: Receiver) -> list[str]:
    return [each.headers["webhook-id"] for each in receiver.received]


def signed_by(secret: str, received: Received) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    named = (received.headers["webhook-id"], received.headers["webhook-timestamp"])
    content = b"%b.%b.%b" % (*(each.encode() for each in named), received.body)
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def test_events_arrive_in_order_and_signed(webhooks: Webhooks, receiver: Receiver) -> None:
    secret = webhooks.put("order", receiver, kinds=["version_registered"])["secret"]
    subjects = [f"order-{number}" for number in range(5)]
    webhooks.register("other", *subjects)
    webhooks.http.delete("/subjects/order-0")
    for received in until_received(receiver, 5):
        assert received.headers["content-type"].startswith("application/cloudevents+json")
        assert received.headers["webhook-signature"] == signed_by(secret, received)
    assert receiver.subjects == subjects
    found = webhooks.until_state("order", delivered=5, lag=0, state="delivering", failures=0)
    assert found["position"] > receiver.received[-1].event["data"]["offset"]
    assert "secret" not in found
    metrics = webhooks.http.get("/metrics").text
    assert 'registrar_webhook_deliveries_total{outcome="accepted",webhook="order"} 5.0' in metrics


def test_a_receiver_that_fails_gets_each_event_once_it_recovers(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    webhooks.put("fails", receiver)
    receiver.replies += [Reply(500), Reply(404)]
    webhooks.register("fails-1", "fails-2")
    until_received(receiver, 4)
    assert receiver.subjects == ["fails-1", "fails-1", "fails-1", "fails-2"]
    assert len({*ids(receiver)[:3]}) == 1
    webhooks.until_state("fails", delivered=2, failed=2, failures=0)
    assert "webhook fails: delivered again after 2 failures" in webhooks.registry.output


def test_a_receiver_that_hangs_delays_no_other(webhooks: Webhooks, receiver: Receiver) -> None:
    released = threading.Event()
    with Receiver() as other:
        webhooks.put("hangs", receiver)
        webhooks.put("prompt", other, subjectPrefix="hangs-")
        receiver.usual = Reply(gate=released)
        try:
            webhooks.register("hangs-1", "hangs-2")
            until_received(other, 2)
            found = webhooks.until_state("hangs", lastError="no answer within 1 s", delivered=0)
            assert found["state"] == "retrying"
            assert found["nextAttempt"] > 0
            receiver.usual = Reply()
        finally:
            released.set()
        webhooks.until_state("hangs", delivered=2, state="delivering")
        assert receiver.subjects[-1] == "hangs-2"
        assert other.subjects == ["hangs-1", "hangs-2"]


def test_a_receiver_that_wants_no_more_is_left_alone_until_it_is_registered_again(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    webhooks.put("gone", receiver)
    receiver.replies.append(Reply(410))
    webhooks.register("gone-1", "gone-2")
    found = webhooks.until_state("gone", enabled=False)
    assert (found["state"], found["reason"]) == ("disabled", "the receiver answered 410")
    webhooks.put("gone", receiver)
    until_received(receiver, 3)
    assert receiver.subjects == ["gone-1", "gone-1", "gone-2"]


def test_a_receiver_within_the_network_is_neither_registered_nor_reached(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    inside = f"http://127.0.0.1:{receiver.port}/inside"
    assert webhooks.refusal("PUT", "/inside", {"url": inside}) == (422, 42282)
    receiver.replies += [Reply(307, (("location", inside),))] * 2
    webhooks.put("inside", receiver)
    found = webhooks.answer("POST", "/inside/test")
    assert (found["delivered"], found["status"]) == (False, 307)
    webhooks.register("inside-1")
    until_received(receiver, 3)
    assert {each.path for each in receiver.received} == {"/hook"}


def test_a_test_reports_what_came_back_and_moves_nothing(webhooks: Webhooks, receiver: Receiver) -> None:
    before = webhooks.put("tested", receiver)
    receiver.replies.append(Reply(503))
    failed, accepted = (webhooks.answer("POST", "/tested/test") for _ in range(2))
    assert (failed["delivered"], failed["status"], failed["error"]) == (
        False,
        503,
        "the receiver answered 503",
    )
    assert (accepted["delivered"], accepted["status"]) == (True, 204)
    assert [each.event["type"] for each in receiver.received] == ["registrar.ping"] * 2
    assert receiver.received[1].headers["webhook-signature"] == signed_by(
        before["secret"], receiver.received[1]
    )
    assert webhooks.get("tested")["delivered"] == 0


def test_a_position_can_be_moved_back_and_to_the_end(webhooks: Webhooks, receiver: Receiver) -> None:
    webhooks.put("moved", receiver)
    webhooks.register("moved-1", "moved-2")
    first = until_received(receiver, 2)[0].event["data"]["offset"]
    webhooks.until_state("moved", delivered=2, lag=0)
    webhooks.answer("POST", "/moved/position", {"offset": first})
    until_received(receiver, 4)
    webhooks.put("moved", receiver, enabled=False)
    webhooks.register("moved-3")
    webhooks.answer("POST", "/moved/position", {"offset": "now"})
    webhooks.put("moved", receiver)
    webhooks.register("moved-4")
    until_received(receiver, 5)
    assert receiver.subjects == ["moved-1", "moved-2", "moved-1", "moved-2", "moved-4"]


def test_a_position_beyond_the_end_of_the_log_is_refused(webhooks: Webhooks, receiver: Receiver) -> None:
    webhooks.put("beyond", receiver)
    end = int(webhooks.http.get("/subjects").headers["x-registry-offset"])
    refused = webhooks.http.post("/admin/webhooks/beyond/position", json={"offset": end + 1})
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        f"offset is beyond the end of the log: its last offset is {end - 1}",
    )
    body = {"url": receiver.url, "from": end + 1}
    assert webhooks.refusal("PUT", "/further", body) == (400, 400)
    assert webhooks.answer("POST", "/beyond/position", {"offset": end})["name"] == "beyond"


def test_a_rotation_keeps_the_former_secret_valid_for_a_while(webhooks: Webhooks, receiver: Receiver) -> None:
    former = webhooks.put("rotated", receiver)["secret"]
    secret = webhooks.answer("POST", "/rotated/rotate")["secret"]
    webhooks.register("rotated-1")
    received = until_received(receiver, 1)[0]
    wanted = f"{signed_by(secret, received)} {signed_by(former, received)}"
    assert received.headers["webhook-signature"] == wanted
    assert secret != former


def test_verbs_add_list_test_and_remove(webhooks: Webhooks, receiver: Receiver) -> None:
    where = ("--url", webhooks.registry.url)
    added = verb("webhook", "add", "verbs", receiver.url, "--kind", "mode_set", "--prefix", "verbs-", *where)
    assert (added.status, added.out[:6]) == (0, "whsec_")
    assert webhooks.get("verbs")["kinds"] == ["mode_set"]
    changed = verb("webhook", "add", "verbs", receiver.url, "--from", "0", *where)
    assert (changed.status, changed.out) == (0, "")
    assert "its secret is the same" in changed.err
    listed = verb("webhook", "list", "--json", *where).json
    assert "verbs" in [each["name"] for each in listed]
    table = verb("webhook", "list", *where).out
    assert receiver.url in table
    receiver.replies.append(Reply(500))
    failed, accepted = (verb("webhook", "test", "verbs", *where) for _ in range(2))
    assert (failed.status, failed.out) == (1, "the receiver answered 500\n")
    assert (accepted.status, accepted.out[:25]) == (0, "the receiver answered 204")
    assert verb("webhook", "remove", "verbs", *where).status == 0
    assert verb("webhook", "remove", "verbs", *where).status == 1


def test_deleted_webhooks_get_nothing(webhooks: Webhooks, receiver: Receiver) -> None:
    webhooks.put("deleted", receiver)
    webhooks.answer("DELETE", "/deleted")
    with Receiver() as other:
        webhooks.put("witness", other, subjectPrefix="deleted-")
        webhooks.register("deleted-1")
        until_received(other, 1)
    assert receiver.received == []
    for method, path in ("GET", "/deleted"), ("DELETE", "/deleted"), ("POST", "/deleted/test"):
        assert webhooks.refusal(method, path) == (404, 40481)


def test_the_position_survives_a_kill_and_only_the_last_event_is_repeated(
    tmp_path: Path, receiver: Receiver
) -> None:
    released = threading.Event()
    with started(tmp_path / "data") as webhooks:
        webhooks.put("kept", receiver)
        webhooks.register("kept-1", "kept-2")
        until_received(receiver, 2)
        webhooks.until_state("kept", delivered=2)
        receiver.usual = Reply(gate=released)
        webhooks.register("kept-3", "kept-4")
        until_received(receiver, 3)
        webhooks.registry.kill()
    try:
        receiver.usual = Reply()
        with started(tmp_path / "data", "another secret of this test, long enough") as webhooks:
            found = webhooks.until_state("kept", state="stopped")
            assert found["lastError"].startswith("its secret was derived from another webhooks_secret")
            assert webhooks.refusal("POST", "/kept/test") == (409, 40981)
            secret = webhooks.answer("POST", "/kept/rotate")["secret"]
            webhooks.until_state("kept", delivered=2)
    finally:
        released.set()
    # It may have been tried more than once before the kill.
    assert [subject for subject, _ in groupby(receiver.subjects)] == ["kept-1", "kept-2", "kept-3", "kept-4"]
    assert Counter(receiver.subjects) | Counter({"kept-3": 9}) == Counter(
        {"kept-1": 1, "kept-2": 1, "kept-3": 9, "kept-4": 1}
    )
    assert len({*ids(receiver)}) == 4
    last = receiver.received[-1]
    assert signed_by(secret, last) in last.headers["webhook-signature"].split()


# In make test, tests/unit/webhooks/test_signing.py signs with both secrets, and one is rotated above.
@pytest.mark.long
def test_a_change_of_the_secret_of_the_cluster_stops_no_delivery(tmp_path: Path, receiver: Receiver) -> None:
    """Restarted with both secrets, rotated, restarted with the new one: a receiver verifies every event."""
    data, new = tmp_path / "data", "another secret of this test, long enough"
    with started(data) as webhooks:
        former = webhooks.put("changed", receiver)["secret"]
        webhooks.register("changed-1")
        webhooks.until_state("changed", lag=0)
    with started(data, f"{new}\n{SECRET}") as webhooks:
        webhooks.register("changed-2")
        webhooks.until_state("changed", lag=0)
        secret = webhooks.answer("POST", "/changed/rotate")["secret"]
        webhooks.register("changed-3")
        webhooks.until_state("changed", lag=0)
    with started(data, new) as webhooks:
        webhooks.register("changed-4")
        webhooks.until_state("changed", lag=0, state="delivering")
    assert receiver.subjects == [f"changed-{number}" for number in (1, 2, 3, 4)]
    for received in receiver.received:
        signatures = received.headers["webhook-signature"].split()
        subject = received.event["data"]["subject"]
        assert (signed_by(former, received) in signatures) == (subject <= "changed-3")
        assert (signed_by(secret, received) in signatures) == (subject >= "changed-3")
