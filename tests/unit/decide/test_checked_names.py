"""Commands are decided only for the subjects that were checked; other resolutions are refused."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import msgspec
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
    PutConfig,
    PutMode,
    Register,
    ReleaseIds,
    RequestSnapshot,
    ResourceRequest,
    TagVersion,
    UsageCommand,
    WebhookCommand,
)
from registry.domain.decide import repeat_reply
from registry.domain.model import LATEST, Reference
from registry.domain.parsing.parser import Parser
from registry.domain.principal import CheckedNames
from registry.domain.queries.associations import ASSOCIATION_RULES
from registry.domain.queries.scope import Defaults
from registry.security.gate import Permission
from tests.unit.small_registry import STRING, SmallRegistry, properties, record

WEAK = AssociationRequest("value", "s", "WEAK", guid="g")
RESOURCE = ResourceRequest("n", "ns", "r", associations=[WEAK])
REMOVAL = msgspec.structs.replace(
    RESOURCE, associations=[AssociationRequest("value", op="DELETE", cascade=True)]
)
# A command on the subject ``s`` or the context ``.c``, and what is done to it.
COMMANDS: list[tuple[Any, str, str]] = [
    (Register("s", STRING), "write", "s"),
    (Register("s", STRING, propagate_tags=True), "write", "s"),
    (TagVersion("s", 1), "write", "s"),
    (DeleteSubject("s"), "delete", "s"),
    (DeleteVersion("s", 1), "delete", "s"),
    (PutConfig("s", {"normalize": True}), "config", "s"),
    (PutConfig(None, {"normalize": True}), "config", ""),
    (DeleteConfig("s"), "config", "s"),
    (PutMode("s", "READONLY", "READONLY"), "mode", "s"),
    (DeleteMode("s"), "mode", "s"),
    (DeleteContext(".c"), "delete", ":.c:"),
    (Associate(RESOURCE, ".", create=False), "write", "s"),
    (Associate(RESOURCE, ".", create=False, dry_run=True), "write", "s"),
    (Associate(RESOURCE, ".", create=True), "write", "s"),
    (ChangeAssociations([RESOURCE], "."), "write", "s"),
    (Dissociate("of-t", "topic"), "write", "t"),
    (ChangeAssociations([msgspec.structs.replace(REMOVAL, resource_id="of-t")], "."), "write", "t"),
]
# Commands that need permissions on the whole registry, whatever they name.
NAMELESS = {ReleaseIds, RequestSnapshot, *get_args(WebhookCommand), *get_args(UsageCommand)}


# By these rules, an association without a schema can be strong.
FORMER = Defaults(association_rules=ASSOCIATION_RULES["8.3"])


@pytest.fixture
def small() -> SmallRegistry:
    """The subjects ``s`` and ``t``, both with a config and a mode; ``t`` has a strong association."""
    found = SmallRegistry(FORMER)
    for name in ("s", "t"):
        found.register(name)
        found.submit(PutConfig(name, {"validateFields": True}))
        found.submit(PutMode(name, "READWRITE", "READWRITE"))
    strong = msgspec.structs.replace(WEAK, subject="t", lifecycle="STRONG")
    resource = ResourceRequest("of-t", "ns", "of-t", associations=[strong])
    found.submit(Associate(resource, ".", create=True))
    return found


def limited(small: SmallRegistry, checked: CheckedNames) -> None:
    small.defaults = dataclasses.replace(FORMER, checked=checked)


def test_every_command_that_names_something_is_held() -> None:
    assert {type(command) for command, _, _ in COMMANDS} | NAMELESS == set(get_args(Command))
    assert {operation for _, operation, _ in COMMANDS} <= {each.value for each in Permission}


@pytest.mark.parametrize(("command", "operation", "name"), COMMANDS)
def test_a_command_is_decided_for_names_that_were_checked_and_for_no_others(
    small: SmallRegistry, command: Command, operation: str, name: str
) -> None:
    others = frozenset({"s", "t", "", ":.c:"}) - {name}
    unfit = (
        CheckedNames(),
        CheckedNames(frozenset({"admin", "read"}), {operation: others, "read": frozenset({name})}),
    )
    for each in unfit:
        limited(small, each)
        assert small.refusal(command)[0] == 503
    fit = {operation: frozenset({name}), "delete": frozenset({name, "t"})}
    limited(small, CheckedNames(names=fit))
    small.submit(command)


def test_a_cascade_needs_more_than_to_write(small: SmallRegistry) -> None:
    may_write = CheckedNames(frozenset({"write"}))
    for cascade, taken in ((True, False), (False, True)):
        limited(small, may_write)
        command = Dissociate("of-t", "topic", cascade=cascade)
        if taken:
            small.submit(command)
        else:
            assert small.refusal(command)[0] == 503


@pytest.mark.parametrize("command", [DeleteSubject("alias"), Register("alias", STRING)])
def test_the_target_of_an_alias_counts(small: SmallRegistry, command: Command) -> None:
    small.submit(PutConfig("alias", {"alias": "s"}))
    for name, taken in (("alias", False), ("s", True)):
        limited(small, CheckedNames(names={each: frozenset({name}) for each in ("write", "delete")}))
        if taken:
            small.submit(command)
        else:
            assert small.refusal(command)[0] == 503


def test_schemas_that_are_used_must_have_been_checked_as_they_are_at_the_decision(
    small: SmallRegistry,
) -> None:
    """The latest version of a reference refers to a third subject by then."""
    small.register("secret", record("Secret", "salary"))
    small.register("mine", record("Mine", "a"))
    uses = record("Uses").replace("[]", '[{"name":"f","type":"Mine"}]')
    command = Register("u", uses, references=[Reference("Mine", "mine", LATEST)])
    limited(small, CheckedNames(frozenset({"write"}), {"read": frozenset({"u"})}))
    assert small.refusal(command)[0] == 503
    reader = CheckedNames(frozenset({"write"}), {"read": frozenset({"mine"})})
    limited(small, reader)
    small.submit(command)
    small.defaults = Defaults()
    small.config("mine", compatibilityLevel="NONE")
    refers = [Reference("Secret", "secret", 1)]
    small.register("mine", record("Mine").replace("[]", '[{"name":"f","type":"Secret"}]'), references=refers)
    again = msgspec.structs.replace(command, subject="v")
    limited(small, reader)
    assert small.refusal(again)[0] == 503
    limited(small, CheckedNames(frozenset({"write", "read"})))
    small.submit(again)


def test_the_text_of_the_latest_version_must_have_been_checked(small: SmallRegistry) -> None:
    command = Register("s", "", metadata=properties(a="b"))
    limited(small, CheckedNames(frozenset({"write"})))
    assert small.refusal(command)[0] == 503
    limited(small, CheckedNames(frozenset({"write"}), {"read": frozenset({"s"})}))
    small.submit(command)


@pytest.mark.parametrize("again", [Register("s", STRING), TagVersion("s", 1)])
def test_a_reply_that_is_restored_shows_no_subject_that_was_not_checked(
    small: SmallRegistry, again: Command
) -> None:
    """The alias of an executed command has another target by now, with a version of the same id."""
    brief = b'{"id":1,"version":1}'

    def reply(*names: str) -> bytes:
        checked = CheckedNames(names={"write": frozenset(names)})
        return Parser().run(repeat_reply(small.view, again, brief, checked)) or b""

    assert b'"schema":' in reply("s", "t")
    small.submit(PutConfig("s", {"alias": "t"}))
    if isinstance(again, TagVersion):
        assert b'"schema":' in reply("s")  # its subject is no alias
        assert reply("t") == brief
    else:
        assert reply("s") == brief
        assert b'"schema":' in reply("t")
