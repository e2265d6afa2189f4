"""Commands as Confluent's nodes forward them, and what their answers mean."""

from __future__ import annotations

import orjson
import pytest

from registry.domain.commands import (
    Associate,
    AssociationRequest,
    ChangeAssociations,
    Command,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Dissociate,
    Done,
    NotPrimary,
    Outcome,
    PutConfig,
    PutMode,
    Refused,
    Register,
    ResourceRequest,
    Unknown,
)
from registry.domain.errors import outcome_unknown
from registry.domain.model import Metadata, Reference, Rule, RuleSet
from registry.forwarding.confluent_client import outcome_of, plain_request

FOREIGN = "The primary answered with status %d, but not as a registry does"
REQUESTS: list[tuple[Command, str, str, object]] = [
    (Register("s", '"int"'), "POST", "/subjects/s/versions", {"schema": '"int"'}),
    (
        Register(
            ":.c:a/b", "{}", "AVRO", [Reference("n", "r", 1)], Metadata(properties={"k": "v"}),
            RuleSet(domain_rules=[Rule(name="r")]), version=3, schema_id=7, normalize=True, force=True,
        ),
        "POST",
        "/subjects/%3A.c%3Aa%2Fb/versions?normalize=true&force=true",
        {
            "schema": "{}", "schemaType": "AVRO",
            "references": [{"name": "n", "subject": "r", "version": 1}],
            "metadata": {"properties": {"k": "v"}},
            "ruleSet": {"domainRules": [{"name": "r", "disabled": False}]},
            "version": 3, "id": 7,
        },
    ),
    (DeleteSubject("s"), "DELETE", "/subjects/s", None),
    (DeleteSubject("s", True), "DELETE", "/subjects/s?permanent=true", None),
    (DeleteVersion("s", -1, True), "DELETE", "/subjects/s/versions/-1?permanent=true", None),
    (
        PutConfig("s", {"compatibilityLevel": "FULL", "normalize": None}),
        "PUT",
        "/config/s",
        {"compatibility": "FULL", "normalize": None},
    ),
    (PutConfig(None, {"alias": "a"}), "PUT", "/config", {"alias": "a"}),
    (DeleteConfig("s"), "DELETE", "/config/s", None),
    (PutMode("s", "IMPORT", "import", True), "PUT", "/mode/s?force=true", {"mode": "import"}),
    (PutMode(None, None, None), "PUT", "/mode", {"mode": None}),
    (DeleteMode("s", True), "DELETE", "/mode/s?recursive=true", None),
    (DeleteContext(".c"), "DELETE", "/contexts/%3A.c%3A", None),
    (
        Associate(
            ResourceRequest(
                "n", "ns", "r/1", None, [AssociationRequest("key", "s", "WEAK", False, guid="g")]
            ),
            ".", create=True, dry_run=True,
        ),
        "POST", "/associations?dryRun=true",
        {
            "resourceName": "n", "resourceNamespace": "ns", "resourceId": "r/1",
            "associations": [
                {"associationType": "key", "subject": "s", "lifecycle": "WEAK", "frozen": False},
            ],
        },
    ),
    (
        Associate(
            ResourceRequest(
                "n", "ns", "r/1", "topic",
                [AssociationRequest(schema=Register("", "{}", "JSON", normalize=True))],
            ),
            ".c", create=False,
        ),
        "PUT", "/associations/resources/r%2F1?context=%3A.c%3A",
        {
            "resourceName": "n", "resourceNamespace": "ns", "resourceId": "r/1", "resourceType": "topic",
            "associations": [{"schema": {"schema": "{}", "schemaType": "JSON"}, "normalize": True}],
        },
    ),
    (
        Dissociate("r", "topic", ["key", "value"], True),
        "DELETE",
        "/associations/resources/r?cascadeLifecycle=true"
        "&resourceType=topic&associationType=key&associationType=value",
        None,
    ),
    (
        ChangeAssociations(
            [ResourceRequest(associations=[AssociationRequest("key", op="DELETE", cascade=True)])], "."
        ),
        "POST", "/associations:batchMutate",
        {"requests": [{"associations": [
            {"opType": "DELETE", "associationType": "key", "cascadeLifecycle": True},
        ]}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("command", "method", "target", "body"), REQUESTS, ids=lambda each: repr(each)[:40])
def test_a_command_is_the_request_that_a_client_would_make(
    command: Command, method: str, target: str, body: object
) -> None:
    request = plain_request(command)
    assert (request.method, request.target) == (method, target)
    assert (orjson.loads(request.body) if request.body else None) == body


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b'{"id":1}', Done(b'{"id":1}', 0)),
        (204, b"", Done(b"", 0)),
        (207, b'{"results":[]}', Done(b'{"results":[]}', 0)),
        (404, b'{"error_code":40401,"message":"none"}', Refused(40401, "none")),
        (409, b'{"error_code":409,"message":"no; error code: 409"}', Refused(409, "no")),
        (
            409, b'{"error_code":40901,"message":"[FLINK: a\\nb, {level: \'FULL\'}]; error code: 40901"}',
            Refused(40901, "[FLINK: a\nb, {level: 'FULL'}]"),
        ),
        (500, b'{"error_code":50001,"message":"store"}', Refused(50001, "store")),
        (500, b'{"error_code":50002,"message":"timed out"}', Unknown("timed out")),
        (500, b'{"error_code":50003,"message":"forwarding"}', NotPrimary()),
        (500, b'{"error_code":50004,"message":"Leader not known."}', NotPrimary()),
        (502, b"<html>", Unknown(outcome_unknown(FOREIGN % 502))),
        (500, b"[]", Unknown(outcome_unknown(FOREIGN % 500))),
        (413, b"<html>", Refused(50003, FOREIGN % 413)),
    ],
)  # fmt: skip
def test_what_its_answer_means(status: int, body: bytes, outcome: Outcome) -> None:
    assert outcome_of(status, body) == outcome
