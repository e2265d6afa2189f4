"""The setting chooses from the table of association rules; and the cost of decisions by them."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress

import pytest

from registry.base.config.loading import Settings, table
from registry.domain.commands import Associate, AssociationRequest, DeleteSubject, Dissociate, ResourceRequest
from registry.domain.errors import RegistryError
from registry.domain.log_format.records import AssociationKey, association_key
from registry.domain.model import Subject
from registry.domain.queries.associations import ASSOCIATION_RULES, RELEASED
from registry.host.wiring import defaults
from tests.support.counting_view import CountingView
from tests.support.running import ROOT
from tests.unit.small_registry import SmallRegistry, record

(SETTING,) = (setting for setting in table() if setting.name == "confluent_version")


def test_the_setting_has_the_names_of_the_table_and_released_rules_by_default() -> None:
    assert SETTING.kind.allowed == "one of " + ", ".join(ASSOCIATION_RULES)
    assert defaults(Settings()).association_rules is RELEASED


@pytest.mark.parametrize("name", ASSOCIATION_RULES)
def test_the_setting_chooses_a_row(name: str) -> None:
    settings = dataclasses.replace(Settings(), confluent_version=SETTING.kind.read(name))
    assert defaults(settings).association_rules is ASSOCIATION_RULES[name]


def test_every_rule_is_asked_for_and_no_release_is() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "registry").rglob("*.py")}
    for rule in dataclasses.fields(RELEASED):
        assert any(re.search(rf"rules\.{rule.name}\b", text) for text in sources.values()), rule.name
    named = {path.name for path, text in sources.items() if '"8.3"' in text}
    assert named == {"associations.py", "settings.py"}


def test_a_subject_of_many_topics_costs_no_more_to_share_keep_or_leave() -> None:
    def reads(topics: int) -> list[int]:
        registry = SmallRegistry()
        registry.view = CountingView()
        registry.register("s", record("R"))
        for number in range(topics):
            registry.append(
                association_key(AssociationKey(Subject(".", "s"), f"n{number}", "ns", "topic", "value")),
                b'{"guid":"g","resourceId":"r%d","lifecycle":"WEAK","frozen":false}' % number,
            )
        wanted = AssociationRequest("value", "s", guid="018bcfe5-687b-7001-8203-040506070809")
        request = ResourceRequest("n", "ns", "r", None, [wanted])
        found = []
        for command in (Associate(request, ".", create=True), DeleteSubject("s"), Dissociate("r", "topic")):
            registry.view.reads = 0
            with suppress(RegistryError):
                registry.submit(command)
            found.append(registry.view.reads)
        return found

    assert reads(300) == reads(10)
