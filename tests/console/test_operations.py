"""Every operation of the API: which module of the console sends it, or why the console does not offer it."""

from __future__ import annotations

import re

import pytest

from registry.api.routes import operations
from registry.ui.console import STATIC

# The module that sends the request; after a space, how it spells the path there, if that differs.
OFFERED = {
    "GET /admin/audit": "cluster/audit.js",
    "GET /admin/cluster": "cluster/nodes.js",
    "GET /admin/configs": "transfer/download.js /admin/${what}",
    "GET /admin/duplicates": "cluster/duplicates.js",
    "GET /admin/ids": "contexts/view.js",
    "POST /admin/ids/release": "contexts/release.js",
    "GET /admin/modes": "transfer/download.js /admin/${what}",
    "GET /admin/snapshots": "cluster/snapshots.js",
    "POST /admin/snapshots": "cluster/snapshots.js",
    "DELETE /admin/snapshots/{snapshot}": "cluster/snapshots.js",
    "GET /admin/webhooks": "webhooks/webhooks.js",
    "PUT /admin/webhooks/{webhook}": "webhooks/form.js",
    "DELETE /admin/webhooks/{webhook}": "webhooks/webhooks.js",
    "POST /admin/webhooks/{webhook}/position": "webhooks/position.js",
    "POST /admin/webhooks/{webhook}/rotate": "webhooks/webhooks.js",
    "POST /admin/webhooks/{webhook}/test": "webhooks/webhooks.js",
    "POST /associations": "associations/view.js",
    "DELETE /associations/resources/{resource}": "associations/view.js",
    "GET /associations/subjects/{subject}": "schema/resources.js",
    "GET /changes": "live/feed.js",
    "POST /compatibility/subjects/{subject}/explain": "editor/checks.js",
    "POST /compatibility/subjects/{subject}/versions": "transfer/uploading.js",
    "GET /config/{subject}": "schema/moment.js",
    "PUT /config": "schema/settings.js",
    "DELETE /config": "schema/settings.js",
    "PUT /config/{subject}": "config/view.js",
    "DELETE /config/{subject}": "schema/settings.js",
    "GET /contexts": "schema/resources.js",
    "DELETE /contexts/{context}": "contexts/view.js",
    "GET /health/ready": "home/health-line.js",
    "GET /me": "session/session.js",
    "POST /me/session": "session/session.js",
    "DELETE /me/session": "session/session.js",
    "GET /metrics": "home/health-line.js",
    "PUT /mode": "schema/settings.js",
    "DELETE /mode": "schema/settings.js",
    "PUT /mode/{subject}": "schema/settings.js",
    "DELETE /mode/{subject}": "schema/settings.js",
    "GET /quarantine": "cluster/quarantine.js",
    "GET /schemas": "transfer/download.js",
    "GET /schemas/guids/{guid}/ids": "schema/usage.js",
    "GET /schemas/ids/{id}": "schema/put-back.js",
    "GET /schemas/ids/{id}/versions": "schema/usage.js",
    "GET /schemas/lookup": "lookup/finding.js",
    "POST /schemas/comparison": "schema/reading.js",
    "POST /schemas/lint": "editor/checks.js",
    "GET /scopes": "schema/resources.js",
    "GET /search": "palette/palette.js",
    "GET /subjects": "subjects/names.js",
    "DELETE /subjects/{subject}": "schema/delete-dialog.js",
    "POST /subjects/{subject}": "transfer/uploading.js",
    "GET /subjects/{subject}/history": "schema/history-events.js",
    "GET /subjects/{subject}/summary": "schema/reading.js",
    "GET /subjects/{subject}/timeline": "schema/reading.js",
    "GET /subjects/{subject}/versions": "schema/put-back.js",
    "POST /subjects/{subject}/versions": "editor/register.js",
    "GET /subjects/{subject}/versions/{version}": "schema/resources.js",
    "DELETE /subjects/{subject}/versions/{version}": "schema/delete-dialog.js",
    "GET /subjects/{subject}/versions/{version}/comparison": "schema/reading.js",
    "GET /subjects/{subject}/versions/{version}/fields": "schema/reading.js",
    "GET /subjects/{subject}/versions/{version}/graph": "schema/reading.js",
    "POST /subjects/{subject}/versions/{version}/tags": "tags/view.js",
    "GET /usage/census": "usage/census.js",
    "GET /usage/sources": "usage/topics.js",
    "DELETE /usage/sources/{source}": "usage/topics.js",
    "GET /usage/subjects": "usage/unused.js",
    "GET /usage/subjects/{subject}": "usage/subject.js",
    "GET /usage/subjects/{subject}/askers": "usage/askers.js",
    "GET /usage/unknown": "usage/topics.js",
}
NOT_OFFERED = {
    "GET /": "says nothing: clients see by it that a registry answers",
    "POST /": "says nothing: clients see by it that a registry answers",
    "GET /_health": "for clients of Karapace",
    "GET /admin/snapshots/{snapshot}": "the list of snapshots shows all of each",
    "GET /admin/webhooks/{webhook}": "the list of webhooks shows all of each",
    "GET /associations/resources/{namespace}/{name}": "associations are shown with their subjects",
    "GET /associations/resources/{resource}": "associations are shown with their subjects",
    "PUT /associations/resources/{resource}": "an association is added and removed",
    "POST /associations:batchGet": "for programs: the console shows one subject at a time",
    "POST /associations:batchMutate": "for programs: the console changes one association at a time",
    "POST /compatibility/explain": "/schemas/comparison says it with the fields that differ",
    "POST /compatibility/subjects/{subject}/versions/{version}": "Compare explains the changes, too",
    "GET /config": "/scopes shows it with the scopes below",
    "GET /health/live": "for probes",
    "GET /health/started": "for probes",
    "GET /master_available": "for clients of Karapace",
    "GET /mode": "/scopes shows it with the scopes below",
    "GET /mode/{subject}": "/scopes shows it with the scopes above",
    "GET /node": "the page Nodes shows all nodes",
    "GET /openapi.json": "for tools",
    "GET /schemas/guids/{guid}": "Lookup shows the schema by each of the ids that the guid has",
    "GET /schemas/ids/{id}/schema": "Lookup shows the text with what belongs to it",
    "GET /schemas/ids/{id}/subjects": "Lookup shows the versions, which name their subjects",
    "POST /schemas/differences": "/schemas/comparison says it with the verdicts",
    "GET /schemas/types": "the page holds what the registry knows of its types",
    "GET /subjects/{subject}/metadata": "for clients that choose a version by its properties",
    "GET /subjects/{subject}/versions/{version}/explain": "Compare also explains drafts and other subjects",
    "GET /subjects/{subject}/versions/{version}/referencedby": "References shows the versions, not ids",
    "GET /subjects/{subject}/versions/{version}/schema": "the text comes with the version",
    "GET /usage/schemas/{id}": "Usage shows subjects and sources; Unknown, the ids that nobody knows",
    "GET /usage/schemas/{id}/askers": "Askers shows who asks for each version",
    "GET /usage/sources/{source}": "the list of sources shows all of each",
    "PUT /usage/census": "the job that takes a census publishes it",
    "PUT /usage/sources/{source}": "the job that takes a census publishes it",
    "GET /v1/metadata/deployment": "for clients of Confluent",
    "GET /v1/metadata/id": "for clients of Confluent",
    "GET /v1/metadata/version": "the page Nodes shows the version of each node",
}


async def no_metrics() -> bytes:
    return b""


def test_every_operation_is_offered_or_says_why_not() -> None:
    served = {f"{each.method} {each.path}" for each in operations("1", no_metrics)}
    assert {*OFFERED} | {*NOT_OFFERED} == served
    assert not {*OFFERED} & {*NOT_OFFERED}


@pytest.mark.parametrize("operation", OFFERED)
def test_what_is_offered_is_sent_by_its_module(operation: str) -> None:
    method, path = operation.split(" ")
    module, _, spelled = OFFERED[operation].partition(" ")
    text = (STATIC / module).read_text(encoding="utf-8")
    wanted = re.escape(spelled or re.sub(r"\{\w+\}", "VALUE", path))
    pattern = wanted.replace("VALUE", r"(?:\$\{[^}]+\}|latest)")
    assert re.search(f'["`]{pattern}["`]', text), f"{module} does not send {operation}"
    assert method == "GET" or f'"{method}"' in text, f"{module} does not send {operation}"
