"""One message of each kind that nodes exchange, with every member set."""

from __future__ import annotations

from registry.domain.commands import (
    AdvanceWebhook,
    AskWebhooks,
    Associate,
    AssociationRequest,
    ChangeAssociations,
    Condition,
    Deferred,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteUsage,
    DeleteVersion,
    DeleteWebhook,
    DisableWebhook,
    Dissociate,
    Done,
    Failure,
    Forgotten,
    IdempotencyKey,
    MoveWebhook,
    NotPrimary,
    PingWebhook,
    PutCensus,
    PutConfig,
    PutMode,
    PutUsage,
    PutWebhook,
    Refused,
    Register,
    ReleaseIds,
    RequestSnapshot,
    ResourceRequest,
    RotateWebhook,
    TagsOf,
    TagVersion,
    Unknown,
)
from registry.domain.errors import Passage
from registry.domain.model import Metadata, Reference, Rule, RuleSet
from registry.domain.pending_command import CommandRequest
from registry.domain.principal import CheckedNames, Principal
from registry.forwarding.node_port import Batch, LoggedOutcomes, Outcomes, PeerStatus

METADATA = Metadata({"t": ["x"]}, {"p": "v"}, ["p"])
RULES = RuleSet([Rule("m", mode="UPGRADE", type="T")], [Rule("d", type="T")], [Rule("e", type="T")], "now")
TAGS = [TagsOf("a.b", "sr_field", ["PII"])]
REGISTER = Register(
    "s", '"string"', "AVRO", [Reference("n", "r", 1)], METADATA, RULES, 2, 3,
    normalize=True, force=True, format="resolved", canonical=True,
    tags_to_add=TAGS, tags_to_remove=TAGS, propagate_tags=True,
)  # fmt: skip
RESOURCE = ResourceRequest(
    "n", "ns", "id", "topic",
    [AssociationRequest("value", "s", "STRONG", True, REGISTER, "g", "UPSERT", True)], Failure(422, "no"),
)  # fmt: skip
COMMANDS = (
    REGISTER,
    Register("s", '"int"'),
    TagVersion("s", 1, 2, TAGS, TAGS, METADATA, RULES, RULES, ["d"]),
    DeleteSubject("s", permanent=True),
    DeleteVersion("s", -1, permanent=True),
    PutConfig(None, {"compatibilityLevel": "FULL", "alias": None}),
    DeleteConfig("s"),
    PutMode("s", "IMPORT", "import", force=True),
    DeleteMode(None, recursive=True),
    DeleteContext(".c"),
    RequestSnapshot("00ff", 7),
    Associate(RESOURCE, ".", create=True, dry_run=True),
    Dissociate("id", "topic", ["value"], cascade=True, dry_run=True),
    ChangeAssociations([RESOURCE], ".c", dry_run=True),
    PutWebhook("h", "https://a", ["mode_set"], "orders", False, 7, "00ff", "ab12"),
    DeleteWebhook("h"),
    RotateWebhook("h", "ab12", 1000),
    MoveWebhook("h", 7),
    AdvanceWebhook("h", "00ff", 7, 8),
    DisableWebhook("h", 7, "gone"),
    AskWebhooks("h"),
    PingWebhook("h"),
    ReleaseIds(".c", 7, 9),
    Register("s", '"int"', schema_id=7, far_ids=False),
    PutUsage("t", b"{}"),
    DeleteUsage("t"),
    PutCensus(b"{}"),
)
OUTCOMES = (
    Done(b"{}", 7), Refused(42201, "no"), Unknown("?", repeats=True), NotPrimary(), Forgotten(), Deferred()
)  # fmt: skip
MESSAGES = {
    **{f"command {place} {type(each).__name__}": each for place, each in enumerate(COMMANDS)},
    **{f"outcome {type(each).__name__}": each for each in OUTCOMES},
    "command that asks for passages": ChangeAssociations([RESOURCE], ".c", passages=True),
    "outcome with passages": Refused(40901, "no", passages=[Passage(0, 2, ["s"])]),
    "batch": Batch(
        [CommandRequest(COMMANDS[1], 1.5, "r", IdempotencyKey(b"t" * 16, 5))], "n", deferrable=True
    ),
    "batch of a principal": Batch(
        [CommandRequest(COMMANDS[1], 1.5, principal=Principal("alice", frozenset({"team"})))], "n"
    ),
    "batch of a principal of a kind": Batch(
        [CommandRequest(COMMANDS[1], 1.5, principal=Principal("alice"), kind="token")], "n"
    ),
    "batch of checked names": Batch(
        [
            CommandRequest(
                COMMANDS[1],
                1.5,
                checked=CheckedNames(frozenset({"write"}), {"delete": frozenset({"s"})}),
            )
        ],
        "n",
    ),
    "batch of a condition": Batch(
        [CommandRequest(COMMANDS[1], 1.5, condition=Condition(["3-7"], ["*"]))], "n"
    ),
    "batch of a trace": Batch([CommandRequest(COMMANDS[1], 1.5, trace=f"00-{'a' * 32}-{'b' * 16}-01")], "n"),
    "command to delete a subject by force": DeleteSubject("s", permanent=True, force=True),
    "command to delete a version by force": DeleteVersion("s", 1, permanent=True, force=True),
    "command to dissociate by force": Dissociate("id", "topic", cascade=True, force=True),
    "outcomes": Outcomes(list(OUTCOMES), 9),
    "logged outcomes": LoggedOutcomes([Done(b"{}", 7)], 5, "cluster/topic/id", b"records"),
    "logged outcomes with their epoch": LoggedOutcomes(
        [Done(b"{}", 7)], 5, "cluster/topic/id", b"records", 3
    ),
    "standing": PeerStatus("n", "http://a:1", "primary", 5, repeats=True),
}
