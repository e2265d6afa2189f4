"""One engine answers checks and registrations: they always agree, and so do explanations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.log_format.subject_values import LEVELS
from tests.api.driver import Api

CORPUS = Path(__file__).parents[1] / "corpus"


def pairs() -> list[tuple[str, str, str]]:
    """Return every pair of schemas with a known result, of all types, except those with references."""
    found = []
    for name, kind in (("avro", "AVRO"), ("json_schema", "JSON"), ("protobuf", "PROTOBUF")):
        for case in json.loads((CORPUS / f"{name}_compatibility.json").read_text()):
            old, new = (
                case[side] if kind == "PROTOBUF" else json.dumps(case[side]) for side in ("old", "new")
            )
            if not any(key.endswith("references") for key in case):
                found.append((kind, old, new))
    return found


PAIRS = pairs()


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3),
    st.sampled_from(LEVELS),
    st.sampled_from(["STRICT", "LENIENT", "LOGICAL"]),
    st.booleans(),
    st.booleans(),
)
def test_checks_registrations_and_explanations_agree(
    chosen: list[tuple[str, str, str]], level: str, policy: str, swapped: bool, normalize: bool
) -> None:
    query = f"normalize={str(normalize).lower()}"
    with Api() as api:
        api.put("/config", {"compatibility": "NONE"})
        (kind, old, new), *before = chosen
        if swapped:
            old, new = new, old
        for other_kind, first, second in before:
            for text in (first, second):
                api.post("/subjects/s/versions", {"schema": text, "schemaType": other_kind})
        registered = api.post("/subjects/s/versions", {"schema": old, "schemaType": kind})
        api.put("/config", {"compatibility": level, "compatibilityPolicy": policy})
        body = {"schema": new, "schemaType": kind}

        told = api.post(f"/compatibility/subjects/s/versions?{query}", body)
        verbose = api.post(f"/compatibility/subjects/s/versions?verbose=true&{query}", body)
        report = api.post(f"/compatibility/subjects/s/versions?{query}", body, accept="text/plain")
        explained = explain(api, kind, old, new, policy)
        is_there = api.post(f"/subjects/s?{query}", body).status == 200
        outcome = api.post(f"/subjects/s/versions?{query}", body)

        if told.status == 422:  # This is not a schema: nothing is registered, either.
            assert outcome.status == 422 or is_there
            assert not verbose.json["is_compatible"]
            return
        verdict = told.json["is_compatible"]
        assert verbose.json["is_compatible"] is verdict
        assert report.body.startswith(b"Compatible" if verdict else b"Incompatible")
        assert (not verdict) is any(not each["compatible"] for each in verbose.json["changes"])
        if not is_there:
            assert outcome.status == (200 if verdict else 409)
        if outcome.status == 409:
            details = f"details: [{', '.join(verbose.json['messages'])}]"
            assert outcome.error[2].endswith(details)
        if not before and registered.status == 200 and explained is not None and not normalize:
            assert explained["levels"][level]["compatible"] is verdict


def explain(api: Api, kind: str, old: str, new: str, policy: str) -> Any:
    body = {"schemaType": kind, "compatibilityPolicy": policy}
    reply = api.post("/compatibility/explain", {**body, "old": {"schema": old}, "new": {"schema": new}})
    return reply.json if reply.status == 200 else None
