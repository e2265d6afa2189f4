"""The table of association rules is what the setting chooses from, and nothing else asks for a release."""

from __future__ import annotations

import dataclasses
import re

import pytest

from registry.config import Settings, table
from registry.domain.association_rules import ASSOCIATION_RULES, RELEASED
from registry.node.given import defaults
from tests.running import ROOT

(SETTING,) = (setting for setting in table() if setting.name == "associations_rules")


def test_the_setting_has_the_names_of_the_table_and_released_rules_by_default() -> None:
    assert SETTING.kind.allowed == "one of " + ", ".join(ASSOCIATION_RULES)
    assert defaults(Settings()).association_rules is RELEASED


@pytest.mark.parametrize("name", ASSOCIATION_RULES)
def test_the_setting_chooses_a_row(name: str) -> None:
    settings = dataclasses.replace(Settings(), associations_rules=SETTING.kind.read(name))
    assert defaults(settings).association_rules is ASSOCIATION_RULES[name]


def test_every_rule_is_asked_for_and_no_release_is() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "registry").rglob("*.py")}
    for rule in dataclasses.fields(RELEASED):
        assert any(re.search(rf"rules\.{rule.name}\b", text) for text in sources.values()), rule.name
    named = {path.name for path, text in sources.items() if '"8.3"' in text}
    assert named == {"association_rules.py", "settings.py"}
