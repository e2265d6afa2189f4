"""Requests about associations, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from registry.api.backend import ApiSettings
from registry.domain.queries.associations import ASSOCIATION_RULES
from registry.domain.queries.scope import Defaults
from tests.api.driver import Api, Reply, record

STRING, INT = '"string"', '"int"'
R, R_WIDER, R_OTHER = record("R", "a"), record("R", "a", "b"), '{"type":"record","name":"Q","fields":[]}'


# With the rules of 8.3, by which associations change their lifecycle and mix with others.
FORMER = ApiSettings(defaults=Defaults(association_rules=ASSOCIATION_RULES["8.3"]))


@contextmanager
def two_subjects(settings: ApiSettings | None = None) -> Iterator[Api]:
    """Return a registry with the subjects ``s`` and ``t``."""
    with Api(settings=settings) as found:
        found.register("s", STRING)
        found.register("t", INT)
        yield found


def resource(*associations: dict[str, Any], name: str = "n", **members: Any) -> dict[str, Any]:
    found = {"resourceName": name, "resourceNamespace": "ns", "resourceId": "r", "resourceType": "topic"}
    return found | {"associations": [*associations]} | members


def weak(subject: str = "s", kind: str = "value", **members: Any) -> dict[str, Any]:
    return {"subject": subject, "associationType": kind, **members}


def strong(schema: str = R, kind: str = "value", **members: Any) -> dict[str, Any]:
    return {"associationType": kind, "schema": {"schema": schema}, **members}


def post(api: Api, *associations: dict[str, Any], query: str = "", **members: Any) -> Reply:
    return api.post(f"/associations{query}", resource(*associations, **members))


def put(api: Api, *associations: dict[str, Any], query: str = "", **members: Any) -> Reply:
    body = resource(*associations, **members)
    return api.put(f"/associations/resources/{body['resourceId']}{query}", body)


def mutate(api: Api, *requests: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    reply = api.post(f"/associations:batchMutate{query}", {"requests": [*requests]})
    assert reply.status == 207, reply.body
    found: list[dict[str, Any]] = reply.json["results"]
    return found


def made(reply: Reply) -> list[dict[str, Any]]:
    """Return the associations in an answer, without their schemas."""
    assert reply.status == 200, reply.body
    listed = reply.json.get("associations", [])
    return [{name: value for name, value in each.items() if name != "schema"} for each in listed]


def of(api: Api, resource_id: str = "r") -> list[tuple[str, str, str]]:
    """Return type, subject and lifecycle of a resource's associations."""
    listed = api.get(f"/associations/resources/{resource_id}").json
    return [(each["associationType"], each["subject"], each["lifecycle"]) for each in listed]


def refused(api: Api, ask: Callable[[], Reply]) -> tuple[int, str]:
    """Return code and message of a request that must be refused and write nothing."""
    written, ids = len(api.backend.log), api.backend.ids.save()
    status, code, message = ask().error
    assert (len(api.backend.log), api.backend.ids.save()) == (written, ids)
    assert status == (code if code < 1000 else code // 100)
    return code, message


def invalid(member: str, detail: str) -> tuple[int, str]:
    return 42212, f"The association specified an invalid value for property: '{member}', detail: {detail}"
