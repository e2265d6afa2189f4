"""Findings about running nodes, by their answers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from registry.cli.doctor import Severity, fine, sorted_findings, unknown, verdict, warning
from registry.cli.doctor.servers import Seen, at_one_offset, examine_servers

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PRIMARY: dict[str, Any] = {
    "role": "primary", "applied": 10, "end": 10, "digest": "d1", "started": True, "ready": True,
    "reasons": [], "ready_for_writes": True, "reasons_for_writes": [],
    "quarantined": 0, "log": "cluster/_schemas/id", "node": "n1", "primary": "http://a",
    "election": "", "metadata_encoder": "", "warnings": [],
}  # fmt: skip
SECONDARY = PRIMARY | {"role": "secondary", "node": "n2"}


def seen(url: str, node: dict[str, Any] | None, **more: Any) -> Seen:
    return Seen(url, node, version="1.0", **{"quarantine": (), **more})


def found(*servers: Seen) -> dict[str, str]:
    """Return what is not fine, by the text, with what it is about."""
    return {
        f"{each.text} → {each.advice}": f"{each.severity} {each.about}"
        for each in examine_servers(servers, NOW)
        if each.severity is not Severity.FINE
    }


def test_a_healthy_cluster_is_fine() -> None:
    servers = [seen("http://a", PRIMARY), seen("http://b", SECONDARY)]
    assert {each.severity for each in examine_servers(servers, NOW)} == {Severity.FINE}
    assert {each.severity for each in examine_servers(servers[:1], NOW)} == {Severity.FINE}


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"ready": False, "reasons": ["no space", "b"]}, "error http://b", "it is not ready: no space; b"),
    ({"ready": False}, "error http://b", "it is not ready: it does not say why"),
    ({"end": 2000}, "warning http://b", "it is 1990 records behind the end of the log"),
    ({"peer_problems": ["10.0.0.7 was refused"]}, "error http://b", "other nodes: 10.0.0.7 was refused"),
    ({"election": "both advertise http://a"}, "error http://b", "the election: both advertise http://a"),
    ({"metadata_encoder": "no secret"}, "error http://b", "sensitive metadata: no secret"),
    ({"warnings": ["anyone may write"]}, "warning http://b", "anyone may write"),
    (
        {"log": "other"},
        "error nodes",
        "the nodes follow different logs: cluster/_schemas/id (http://a); other",
    ),
    ({"digest": "d2"}, "error nodes", "the stores differ at offset 10: d1 (http://a); d2 (http://b)"),
    ({"applied": 9, "digest": "d2"}, "unknown nodes", "the stores could not be compared"),
    ({"node": "n1"}, "warning nodes", "http://a and http://b have the same node id n1"),
    ({"role": "primary"}, "error nodes", "several nodes are primary: http://a, http://b"),
    (
        {"primary": "http://b"},
        "error nodes",
        "the nodes name different primaries: http://a (http://a); http://b",
    ),
    ({"quarantined": 3}, "warning log", "3 records could not be interpreted"),
]


def test_stores_of_different_logs_are_not_compared() -> None:
    other = seen("http://b", SECONDARY | {"log": "other", "digest": "d2"})
    [text] = found(seen("http://a", PRIMARY), other)
    assert text.startswith("the nodes follow different logs")


@pytest.mark.parametrize(("change", "about", "text"), BROKEN, ids=lambda each: str(each)[:40])
def test_each_thing_that_is_wrong_is_found(change: dict[str, Any], about: str, text: str) -> None:
    [(told, which)] = found(seen("http://a", PRIMARY), seen("http://b", SECONDARY | change)).items()
    assert which == about
    assert told.startswith(text)


def test_no_primary_is_an_error() -> None:
    following = SECONDARY | {"role": "following", "primary": ""}
    [(told, which)] = found(seen("http://b", following)).items()
    assert which == "error nodes"
    assert told.startswith("no node knows a primary")


def test_different_versions_are_a_warning() -> None:
    servers = seen("http://a", PRIMARY), seen("http://b", SECONDARY)._replace(version="2.0")
    assert list(found(*servers)) == [
        "the nodes have different versions: 1.0 (http://a); 2.0 (http://b) → upgrade the others"
    ]


def test_clashes_and_quarantined_records_are_warnings() -> None:
    clash = {"offset": 5, "reason": "the id 1 stands for another content already: x", "key": "k"}
    entries = [{"offset": 1, "reason": "not JSON", "key": ""}, clash]
    told = found(seen("http://a", PRIMARY, quarantine=entries))
    assert [*told.values()] == ["warning log", "warning log"]
    first, second = told
    assert first.startswith("1 records could not be interpreted")
    assert "1 versions have an id that stands for another content too, such as k" in second


@pytest.mark.parametrize(
    ("days", "which", "word"), [(60, None, ""), (29, "warning", "expires"), (-1, "error", "expired")]
)
def test_certificates_that_expire_are_found(days: int, which: str | None, word: str) -> None:
    ends = NOW + dt.timedelta(days=days)
    told = found(seen("https://a", PRIMARY, certificate_ends=ends))
    if which is None:
        assert not told
    else:
        assert [*told.values()] == [f"{which} https://a"]
        assert next(iter(told)).startswith(f"its certificate {word} on {ends:%Y-%m-%d} → renew it")


def test_servers_that_do_not_answer_are_errors_and_others_are_unknown() -> None:
    assert found(Seen("http://x", failure="nothing listens")) == {"nothing listens → ": "error http://x"}
    assert found(Seen("http://y", failure="401", is_up=True)) == {
        "it does not report the state of its node: 401 → ": "unknown http://y"
    }


def test_nodes_are_compared_at_one_offset() -> None:
    assert at_one_offset([PRIMARY, SECONDARY])
    assert not at_one_offset([PRIMARY, SECONDARY | {"applied": 9}])
    assert at_one_offset([])


def test_the_worst_finding_decides_and_comes_first() -> None:
    findings = [fine("a", "x"), unknown("b", "y"), warning("c", "z")]
    assert verdict(findings) is Severity.WARNING
    assert verdict(findings[:2]) is Severity.UNKNOWN
    assert verdict(findings[:1]) is verdict([]) is Severity.FINE
    assert [each.about for each in sorted_findings(findings)] == ["c", "b", "a"]


def test_in_an_outage_every_error_has_advice_and_nothing_is_called_fine_that_nobody_answered() -> None:
    out = PRIMARY | {
        "role": "following", "primary": "", "election": "the session is lost", "ready_for_writes": False,
        "reasons_for_writes": ["Kafka does not answer"],
    }  # fmt: skip
    servers = [seen(f"http://{name}", out | {"node": name}, quarantine=None) for name in "ab"]
    findings = list(examine_servers(servers, NOW))
    errors = [each for each in findings if each.severity is Severity.ERROR]
    assert [each.text for each in errors if each.about == "http://a"] == [
        "it is ready, but not for writes: Kafka does not answer",
        "the election: the session is lost",
    ]
    assert all(each.advice for each in errors)
    assert [each.text for each in findings if each.severity is Severity.FINE] == [
        "2 stores are equal at offset 10"
    ]
    assert [each.text for each in findings if each.severity is Severity.UNKNOWN] == [
        "no node says which records are quarantined and which ids clash"
    ]
