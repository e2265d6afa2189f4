"""Signatures of webhooks, against the test vector of Standard Webhooks, and secrets of receivers."""

from __future__ import annotations

from base64 import b64decode

from msgspec.structs import replace

from registry.domain.log_format.webhooks import Webhook
from registry.webhooks.message import OVERLAP_MS, Signer, signature

SIGNER = Signer("a secret of the cluster")


def webhook(rotations: int = 0, rotated: int = 0) -> Webhook:
    return Webhook(url="https://a", id="00ff", key=SIGNER.fingerprint, rotations=rotations, rotated=rotated)


def secret(rotations: int = 0, signer: Signer = SIGNER, webhook_id: str = "00ff") -> bytes:
    return b64decode(signer.encoded_secret(webhook_id, rotations).removeprefix("whsec_"), validate=True)


def test_a_signature_is_that_of_standard_webhooks() -> None:
    key = b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_secrets_differ_by_cluster_webhook_and_rotation_and_are_long() -> None:
    other = Signer("another secret of a cluster")
    found = [secret(), secret(1), secret(webhook_id="00fe"), secret(signer=other)]
    assert len(set(found)) == 4
    assert {len(each) for each in found} == {32}
    assert secret() == secret(signer=Signer("a secret of the cluster"))
    assert SIGNER.fingerprint != other.fingerprint


def test_deliveries_are_signed_by_the_secret_that_was_shown() -> None:
    found = SIGNER.signatures(webhook(), 5_999, "evt_1", b"{}")
    assert found == signature(secret(), "evt_1", 5, b"{}")


def test_soon_after_a_rotation_both_secrets_sign() -> None:
    rotated = webhook(rotations=2, rotated=1_000)
    soon, later = 1_000 + OVERLAP_MS - 1, 1_000 + OVERLAP_MS
    new, old = (signature(secret(each), "evt_1", soon // 1000, b"{}") for each in (2, 1))
    assert SIGNER.signatures(rotated, soon, "evt_1", b"{}") == f"{new} {old}"
    assert SIGNER.signatures(rotated, later, "evt_1", b"{}").count("v1,") == 1


def test_a_webhook_is_signed_by_its_own_secret_while_that_of_the_cluster_changes() -> None:
    newer = Signer("another secret of a cluster")
    both = Signer("another secret of a cluster\na secret of the cluster")
    assert both.fingerprint == newer.fingerprint
    assert both.knows(webhook())
    assert not newer.knows(webhook())
    assert both.signatures(webhook(), 5_999, "evt_1", b"{}") == signature(secret(), "evt_1", 5, b"{}")
    rotated = replace(webhook(rotations=1, rotated=5_000), key=both.fingerprint)
    found = both.signatures(rotated, 5_999, "evt_1", b"{}").split()
    assert found[0] == signature(secret(1, newer), "evt_1", 5, b"{}")
    assert signature(secret(), "evt_1", 5, b"{}") in found[1:]
