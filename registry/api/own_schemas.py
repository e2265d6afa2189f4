"""JSON Schemas of Registrar's own bodies: differences, health, snapshots."""

from __future__ import annotations

from registry.domain.events import Kind
from registry.domain.log_format.subject_values import LEVELS
from registry.domain.lookup.search import KINDS as HIT_KINDS
from registry.domain.principal import KINDS
from registry.security.gate import Permission

from .entity_schemas import BOOL, INT, LONG, NUMBER, TEXT, Json, list_of, nullable, object_of, ref

_SNAPSHOT: Json = {
    "id": TEXT,
    "state": {"enum": ["requested", "building", "ready", "failed", "deleting"]},
    "log": {"type": "string", "description": "Identity of the log"},
    "offset": {**LONG, "description": "The snapshot is the state of the log before this offset"},
    "uri": {"type": "string", "description": "The location; the snapshot is the folder id in it"},
    "requested_ms": {**LONG, "description": "ms since the epoch, as the other times"},
    **dict.fromkeys(("updated_ms", "at_end_ms", "rows", "size", "comparable_from"), LONG),
    **dict.fromkeys(("attempts", "schemas", "fold"), INT),
    **dict.fromkeys(("builder", "reason", "engine", "base", "digest", "format"), TEXT),
    "needs": {
        **list_of(TEXT),
        "description": "Ids of the snapshots whose files it refers to; empty for a full one",
    },
    "wall_s": {
        **NUMBER,
        "description": "Duration of the build in seconds; 0 if unknown, as for the next two",
    },
    "cpu_s": {**NUMBER, "description": "CPU seconds that the build used in all processes"},
    "local_cpu_s": {**NUMBER, "description": "Approximate CPU seconds that the built-in engine uses"},
    "manifest": {**TEXT, "description": "SHA-256 of its manifest; empty if an older release built it"},
    "progress": nullable(
        {
            **object_of("step done total", step=TEXT, done=LONG, total=LONG),
            "description": "During a build: the progress of the current step",
        }
    ),
}

_KIND: Json = {"enum": [each.value for each in Kind]}
_START: Json = {"oneOf": [LONG, {"const": "now"}]}
_WEBHOOK: Json = object_of(
    "name url kinds subjectPrefix enabled id rotations",
    name=TEXT, url=TEXT, subjectPrefix=TEXT, enabled=BOOL, rotations=INT,
    kinds={**list_of(_KIND), "description": "Empty: all"},
    id={**TEXT, "description": "Another one for each webhook of this name"},
    rotated={**LONG, "description": "When its secret was last changed"},
    reason={**TEXT, "description": "Why the registry disabled it"},
    secret={**TEXT, "description": "The secret for verifying signatures; only present when it is new"},
    position={**LONG, "description": "All events before this offset are delivered or filtered out"},
    lag={**LONG, "description": "Records of the log that it has not examined yet"},
    state={"enum": ["delivering", "retrying", "disabled", "stopped"]},
    delivered={**LONG, "description": "Since the primary was elected, as the following ones"},
    failed={**LONG, "description": "Failed attempts"},
    failures={**LONG, "description": "Failed attempts since the last success"},
    missed={
        **LONG,
        "description": "Records deleted from the log before it examined them, since the last change",
    },
    lastError=TEXT, lastDelivered=LONG, nextAttempt=LONG,
    etag={**TEXT, "description": "What If-Match has to say to change it; not in responses to changes"},
)  # fmt: skip
_COUNTED = "The census that counted it; an unchanged source keeps the first one that found it so"
_USAGE: Json = object_of(
    "census state",
    source={**TEXT, "description": "The source's name; only in responses"},
    census={**TEXT, "description": _COUNTED},
    state={"enum": ["read", "unread"]},
    reason={**TEXT, "description": "Why it could not be read to its end"},
    context={**TEXT, "description": "The context whose ids its messages name"},
    ms={**LONG, "description": "When its end was queried, in ms since the epoch"},
    messages=LONG,
    uses={
        "type": "array",
        "items": {"type": "array", "minItems": 7, "maxItems": 8},
        "description": "Lists of: side (key, value), framing (id, guid, header-id, header-guid, none, null), "
        "id or guid or null, messages, bytes, times of the first and last message (-1: none), and whether "
        "the count is exact (otherwise the log has removed some since)",
    },
)  # fmt: skip
_AS_OF: Json = nullable({
    **object_of(
        "id started ended complete", id=TEXT, started=LONG, ended=LONG, complete=BOOL, unread=LONG,
        usableUntil={**LONG, "description": "Later, registrations and deletions do not rely on it"},
    ),
    "description": "The census that the counts are from; null: there is none",
})  # fmt: skip
_USE: Json = object_of(
    "source side framing schema messages",
    **dict.fromkeys(("source", "side", "framing"), TEXT), schema={"type": ["integer", "string", "null"]},
    **dict.fromkeys(("messages", "bytes", "first", "last"), LONG), exact=BOOL,
)  # fmt: skip
_DAY: Json = nullable({"type": "string", "format": "date"})
_ASKED: dict[str, Json] = {"requests": LONG, "first": _DAY, "last": _DAY}
_ASKERS: dict[str, Json] = {
    "since": {**_DAY, "description": "All nodes have counted from this day on; null: nothing is counted"},
    **_ASKED,
    "askers": {
        **list_of(
            object_of(
                "principal kind address agent requests first last versions",
                principal={**TEXT, "description": "Empty without authentication"},
                kind={"enum": ["", *KINDS], "description": "How the principal authenticated"},
                address={**TEXT, "description": "Empty if there is a principal"},
                agent={**TEXT, "description": "The beginning of the user agent"},
                **_ASKED,
                versions=list_of(
                    object_of(
                        "version requests first last",
                        version={**nullable(INT), "description": "null: the request named none"},
                        **_ASKED,
                    )
                ),
            )
        ),
        "description": "For administrators, those that asked last first; otherwise empty",
    },
    "askerCount": LONG,
    "other": {**LONG, "description": "Requests for any schemas whose senders were not noted"},
    "missing": {**list_of(TEXT), "description": "For administrators: nodes that did not answer"},
    "missingCount": INT,
}
# In short: without the versions that each has asked for.
_ASKERS_SHORT: dict[str, Json] = _ASKERS | {
    "askers": list_of(object_of(
        "principal kind address agent requests first last",
        principal=TEXT, kind={"enum": ["", *KINDS]}, address=TEXT, agent=TEXT, **_ASKED,
    )),
}  # fmt: skip
_ERROR: Json = ref("Error")
_NUMBERS: Json = {**list_of(INT), "description": "Soft-deleted ones are negative"}
_STATE: Json = {
    "enum": ["used", "unused", "unknown"],
    "description": "unused: a complete census that began after the registration found no message",
}
_SUMMARY: dict[str, Json] = {
    "messages": LONG,
    "first": {**LONG, "description": "Time of the first message, in ms since the epoch; -1: none"},
    "last": {**LONG, "description": "Time of the last one"},
    "exact": {**BOOL, "description": "False: at most so many, because the log has removed some since"},
    "sourceCount": {**INT, "description": "Number of sources; the first 100 are listed"},
}
_VERSION_USAGE: dict[str, Json] = {
    "id": INT, "guid": TEXT, "ts": {**LONG, "description": "When it was registered"}, "deleted": BOOL,
    "state": _STATE, **_SUMMARY, "sources": list_of(_USE),
    "referrers": {
        **list_of(object_of("subject version", subject=TEXT, version=INT)),
        "description": "Versions in use that refer to it, directly or not, and that may be read",
    },
    "referrerCount": INT,
}  # fmt: skip
_CENSUS: Json = dict(
    id=TEXT, location={**TEXT, "description": "Its files; only for administrators, as the next two"},
    sha256={**TEXT, "description": "Of its manifest"}, patterns=list_of(TEXT),
    started={**LONG, "description": "ms since the epoch"}, ended=LONG,
    complete={**BOOL, "description": "All topics were read to their ends; only then is a schema unused"},
    **dict.fromkeys(("sources", "unread", "partitions", "messages"), LONG),
    base={**TEXT, "description": "The census that it continues; empty: none"},
)  # fmt: skip
_CENSUS_ALWAYS = "id started ended complete"
_CHANGES = ("previous", "last", "next")
_CONTENT: Json = object_of(
    "guid count versions",
    guid=TEXT, count={**LONG, "description": "The number of its versions; the first are listed"},
    versions=list_of(object_of("subject version id", subject=TEXT, version=INT, id=INT)),
)  # fmt: skip
_METHODS = ("basic", "bearer", "certificate")
_OPERATIONS: Json = list_of({"enum": [each.value for each in Permission]})

_EXPLAINED: dict[str, Json] = {
    "levels": object_of(
        " ".join(LEVELS),
        **dict.fromkeys(LEVELS, object_of("compatible messages", compatible=BOOL, messages=list_of(TEXT))),
    ),
    "changes": list_of(ref("Change")),
}

SCHEMAS: dict[str, Json] = {
    "Change": object_of(
        "type path old new level direction versionCompared compatible fix",
        type=TEXT, path={**TEXT, "description": "A JSON pointer or, for Protobuf, field numbers"},
        old=nullable({**TEXT, "description": "The part in the old schema; null: absent"}),
        new=nullable(TEXT),
        level={**TEXT, "description": "The effective level"},
        direction={
            "enum": ["BACKWARD", "FORWARD", ""],
            "description": "BACKWARD: data of the old schema read by the new one; FORWARD: the reverse",
        },
        versionCompared=nullable(INT), compatible=BOOL,
        fix={**TEXT, "description": "How to make it compatible; empty if it is"},
        engine={**TEXT, "description": "The engine or table format that cannot follow it, if one is asked"},
        reason={**TEXT, "description": "Why no table can follow it"},
    ),
    "Comparison": object_of(
        "types explanation differences",
        types=object_of("old new", old=TEXT, new=TEXT),
        explanation={
            "anyOf": [ref("ExplainResponse"), _ERROR, {"type": "null"}],
            "description": "null: the types differ",
        },
        differences={"anyOf": [ref("FieldDifferences"), _ERROR]},
    ),
    "ComparisonRequest": object_of("old new", old=ref("ComparisonSide"), new=ref("ComparisonSide")),
    "ComparisonSide": object_of(
        "schema",
        schema=TEXT, schemaType=nullable(TEXT), references=nullable(list_of(ref("SchemaReference"))),
    ),
    "Changes": object_of(
        "events next",
        events=list_of(ref("Event")),
        next={**LONG, "description": "The offset to send as after in the next request"},
    ),
    "ExplainRequest": object_of(
        "old new",
        schemaType=nullable(TEXT), old=ref("ExplainedSchema"), new=ref("ExplainedSchema"),
        compatibilityPolicy=nullable(TEXT), targets=list_of(TEXT),
    ),
    "ExplainedSchema": object_of(
        "schema", schema=TEXT, references=nullable(list_of(ref("SchemaReference")))
    ),
    "ExplainResponse": object_of("levels changes", **_EXPLAINED),
    "VersionExplained": object_of(
        "subject version versionCompared levels changes",
        subject=TEXT, version=INT,
        versionCompared={**nullable(INT), "description": "null: there is no earlier version"},
        **_EXPLAINED,
    ),
    "VersionComparison": {
        **object_of(
            "old new explanation differences",
            old=nullable(ref("Schema")), new=ref("Schema"),
            explanation={"anyOf": [ref("VersionExplained"), _ERROR, {"type": "null"}]},
            differences={"anyOf": [ref("FieldDifferences"), _ERROR, {"type": "null"}]},
            versions={**_NUMBERS, "description": "With againstSubject: the newest 500 of that subject; "
                "soft-deleted ones are negative"},
        ),
        "description": "Of one subject, the lower version is the old one; null: there is none",
    },
    "ComparedSchemas": object_of("old new", old=ref("ComparedSchema"), new=ref("ComparedSchema")),
    "ComparedSchema": object_of("schema", schemaType=nullable(TEXT), schema=TEXT),
    "FieldDifferences": object_of(
        "added removed changed differences",
        added={**INT, "description": "Fields that only the new schema has"},
        removed={**INT, "description": "Fields that only the old schema has"},
        changed={**INT, "description": "Fields and types that both have, with differences"},
        differences={
            **list_of(object_of("", old=ref("Field"), new=ref("Field"))),
            "description": "The first 1,000, with types; old or new is absent where a schema lacks it",
        },
    ),
    "Event": object_of(
        "offset time kind",
        offset=LONG, time={**LONG, "description": "ms since the epoch"},
        kind={"enum": [each.value for each in Kind]},
        context=TEXT, subject={**TEXT, "description": "The qualified name; absent for a context itself"},
        version=INT, id=INT, type=TEXT, level=TEXT, mode=TEXT, resourceName=TEXT, resourceNamespace=TEXT,
        resourceType=TEXT, associationType=TEXT,
        reason={**TEXT, "description": "Why the record is quarantined"},
        principal={**TEXT, "description": "Whose request wrote the record; absent if unknown"},
    ),
    "Fields": object_of(
        "subject version id schemaType total offset fields",
        subject=TEXT, version=INT, id=INT, schemaType=TEXT,
        total={**INT, "description": "Number of fields and types in the schema"},
        offset=INT, entity=ref("Schema"),
        fields=list_of(ref("Field")),
    ),
    "Field": object_of(
        "kind path name type",
        kind={"enum": ["field", "type"], "description": "type: one that the schema defines itself"},
        path={**TEXT, "description": "Names joined by dots; elements are [], values of maps {}"},
        name=TEXT, type=TEXT, default={**TEXT, "description": "As JSON; absent: none"}, doc=TEXT,
        tags=list_of(TEXT),
        required={**BOOL, "description": "True if the schema requires a value and has no default"},
    ),
    "History": object_of(
        "completeFrom filling events",
        completeFrom={**LONG, "description": "No event is missing from this offset on"},
        filling={**BOOL, "description": "The server is still reading older records of the log"},
        events=list_of(ref("Event")),
    ),
    "Health": object_of(
        "status reasons",
        status=TEXT, reasons=list_of(TEXT), ready_for_writes=BOOL, eta_s=nullable({"type": "number"}),
        snapshot=ref("SnapshotStart"),
    ),
    "KarapaceHealth": object_of(
        "status healthy",
        status=object_of(
            "schema_registry_ready",
            schema_registry_ready=BOOL, schema_registry_reader_current_offset=LONG,
            schema_registry_reader_highest_offset=LONG, schema_registry_is_primary=BOOL,
            schema_registry_primary_url=nullable(TEXT),
        ),
        healthy=BOOL,
    ),
    "LintFinding": object_of(
        "severity rule path message fix",
        severity={"enum": ["error", "warning"], "description": "error: the registration would be refused"},
        rule=TEXT, path={**TEXT, "description": "The part of the schema"}, message=TEXT, fix=TEXT,
    ),
    "LintResponse": object_of(
        "valid findings",
        valid=BOOL, message={**TEXT, "description": "The reason why the schema is not valid"},
        schema={**TEXT, "description": "The text as it would be stored"},
        normalized={**TEXT, "description": "The text as it would be stored with normalize=true"},
        findings=list_of(ref("LintFinding")),
    ),
    "LookedUp": object_of(
        "schemas next",
        schemas=list_of(object_of(
            "context id guid schema versions more",
            context=TEXT, id=INT, guid=TEXT, schema=TEXT, schemaType=TEXT,
            versions={
                **list_of(object_of(
                    "subject version deleted", subject=TEXT, version=INT, deleted=BOOL,
                )),
                "description": "The first 200 with this id",
            },
            more={**BOOL, "description": "There are more"},
        )),
        next=nullable({**TEXT, "description": "Send it as after for the next page"}),
    ),
    "PrimaryAvailable": object_of("master_available", master_available=BOOL),
    "SnapshotStart": object_of(
        "id loaded refused",
        id=TEXT, loaded=BOOL, offset=LONG, rows=LONG, rows_done=LONG, bytes=LONG, bytes_done=LONG,
        took_s={"type": "number"}, eta_s=nullable({"type": "number"}), refused=list_of(TEXT),
    ),
    "Node": object_of(
        "role epoch applied end digest ready",
        role=TEXT, epoch=LONG, applied=LONG, end=LONG, digest=TEXT, started=BOOL, ready=BOOL,
        reasons={**list_of(TEXT), "description": "Why it is not ready"},
        ready_for_writes={**BOOL, "description": "Writes through this node can be carried out"},
        reasons_for_writes={**list_of(TEXT), "description": "Why it is not ready for writes"},
        records_per_s={"type": "number"}, eta_s=nullable({"type": "number"}),
        quarantined=LONG, log=TEXT, node=TEXT, primary=TEXT, newest_snapshot=TEXT,
        election={**TEXT, "description": "Why there is no primary, or why this node cannot write yet"},
        cannot_lead={**TEXT, "description": "Why this node may not become primary, elected or not"},
        metadata_encoder={**TEXT, "description": "Why sensitive metadata cannot be read or written"},
        peer_problems={
            **list_of(TEXT), "description": "Why other nodes are refused, or the primary is not reached",
        },
        start=nullable(ref("SnapshotStart")),
        history_from={
            **nullable(LONG), "description": "The history of this node is complete from this offset on",
        },
        search=nullable({
            **object_of(
                "built subjects offset problem",
                built={"type": "number", "description": "The part that is there, from 0 to 1"},
                subjects={**LONG, "description": "In the store when it was begun"},
                offset={**LONG, "description": "Once it is built, it holds changes before this offset"},
                problem={**TEXT, "description": "Why it is not built, or does not follow"},
            ),
            "description": "The search index; null: it is off",
        }),
        invalid_files={
            **list_of(TEXT), "description": "Files named by settings that the next start would reject",
        },
        warnings={
            **list_of(TEXT), "description": "Reachable but unprotected ports, and invalid files",
        },
    ),
    "Webhook": _WEBHOOK,
    "Webhooks": list_of(ref("Webhook")),
    "WebhookRequest": object_of(
        "url",
        **{"from": {**_START, "description": "For a new webhook only: offset of the first event to send"}},
        url=TEXT, kinds=list_of(_KIND), subjectPrefix=TEXT, enabled=BOOL,
    ),
    "WebhookPosition": object_of("offset", offset=_START),
    "WebhookTest": object_of(
        "delivered took_ms", delivered=BOOL, status=nullable(INT), error=TEXT, took_ms=INT
    ),
    "Session": object_of(
        "lasts", lasts={**INT, "description": "Seconds until it expires, unless it is renewed"}
    ),
    "Empty": object_of(),
    "Me": object_of(
        "principal groups kind method readOnly operations signIn",
        principal={**nullable(TEXT), "description": "null: the request has no credentials"},
        groups=list_of(TEXT),
        kind=nullable({"enum": [*KINDS]}),
        method=nullable({"enum": [*_METHODS]}),
        readOnly={**BOOL, "description": "No change is permitted anywhere"},
        operations=object_of(
            "everywhere somewhere",
            everywhere={**_OPERATIONS, "description": "Permitted on all subjects and contexts"},
            somewhere={**_OPERATIONS, "description": "Permitted on at least one subject or context"},
            subject={**_OPERATIONS, "description": "Permitted on the requested subject"},
        ),
        signIn=object_of(
            "required basic bearer certificate oidc",
            **dict.fromkeys(("required", *_METHODS), BOOL),
            oidc=nullable(object_of(
                "issuer clientId scopes audience token",
                **dict.fromkeys(("issuer", "clientId", "scopes", "audience"), TEXT),
                token={"enum": ["access", "id"], "description": "The token to send as Bearer"},
            )),
        ),
        session={
            **object_of("left lasts", left=INT, lasts=INT),
            "description": "Of a request with a session: seconds until it expires, and until it would if it "
            "were renewed now",
        },
    ),
    "Cluster": object_of(
        "node primary problem nodes primacies",
        node={**TEXT, "description": "Id of the node that answers"},
        primary={**TEXT, "description": "URL of the primary; empty: none is known"},
        problem={**TEXT, "description": "Why there is no primary, or why this node cannot write yet"},
        nodes=list_of(ref("NodeReport")),
        primacies=list_of(
            object_of(
                "time node url epoch",
                time={**LONG, "description": "When a node first saw it as primary"}, node=TEXT, url=TEXT,
                epoch={**LONG, "description": "-1: not known yet"},
            )
        ),
        snapshot_ms={**LONG, "description": "When the newest snapshot that is ready was requested; 0: none"},
        failed_snapshot_ms={**LONG, "description": "The same of the newest one that failed"},
    ),
    "NodeReport": object_of(
        "node url role epoch applied end digest ready age_s",
        node=TEXT, url=TEXT, version=TEXT, role=TEXT, digest=TEXT, ready=BOOL, reasons=list_of(TEXT),
        ready_for_writes=BOOL, reasons_for_writes=list_of(TEXT), invalid_files=list_of(TEXT),
        log_error={**TEXT, "description": "Why the node cannot reach the log; empty if it can"},
        **dict.fromkeys(
            ("started_ms", "epoch", "applied", "end", "quarantined", "store_rows", "store_bytes",
             "store_map_bytes", "writes", "waiting", "failed"), LONG
        ),
        requests={**LONG, "description": "Requests answered since the node's start, by all processes of "
            "its host"},
        request_s={"type": "number", "description": "Total time of these requests"},
        age_s={"type": "number", "description": "Time since the node reported this"},
        primacies=list_of({"type": "object"}),
    ),
    "SubjectDetails": object_of(
        "subject version id guid schemaType ts deleted versions deletedVersions size references "
        "compatibilityLevel mode associations",
        subject=TEXT, version=INT, id=INT, guid=TEXT, schemaType=TEXT, ts=LONG, deleted=BOOL,
        versions={**INT, "description": "Number of versions that are not soft-deleted"},
        deletedVersions={**INT, "description": "Number of soft-deleted versions"},
        size={**LONG, "description": "Length of the latest version's text as a JSON string, in bytes"},
        references={**INT, "description": "Number of the latest version's references"},
        compatibilityLevel={**TEXT, "description": "The effective level"},
        mode={**TEXT, "description": "The effective mode"},
        alias={**TEXT, "description": "The subject to which this name leads"},
        associations={**INT, "description": "Number of associations"},
    ),
    "SubjectExplained": object_of(
        "level lint",
        level={**TEXT, "description": "The one in force"},
        lint=object_of(
            "valid findings",
            valid=BOOL, message={**TEXT, "description": "The reason why the schema is not valid"},
            findings=list_of(ref("LintFinding")),
        ),
        levels={
            "type": "object",
            "additionalProperties": {"anyOf": [ref("CompatibilityCheckResponse"), _ERROR]},
            "description": "By level; absent if the schema is not valid",
        },
        tables={
            "anyOf": [ref("CompatibilityCheckResponse"), _ERROR],
            "description": "At the level in force, with the targets",
        },
    ),
    "SubjectSummary": object_of(
        "subject",
        subject=TEXT,
        details=nullable(ref("SubjectDetails")),
        numbers={**_NUMBERS, "description": "Of the newest 10,000 versions; soft-deleted ones are negative"},
        config={**ref("Config"), "description": "In force"},
        entity={"anyOf": [nullable(ref("Schema")), _ERROR]},
        lastChange=nullable({**ref("Event"), "description": "null: not known"}),
        changes={
            **object_of("previous last next", **dict.fromkeys(_CHANGES, nullable(ref("Event")))),
            "description": "The last change up to the requested moment, and those before and after it",
        },
        usage={"anyOf": [
            object_of(
                "census messages first last exact sources sourceCount complete",
                census=_AS_OF, **{**_SUMMARY, "sourceCount": INT},
                sources={
                    **list_of(object_of("source messages", source=TEXT, messages=LONG)),
                    "description": "Those with the most messages first",
                },
                complete={**BOOL, "description": "False: more versions or uses were not looked at"},
            ),
            _ERROR,
        ]},
        referrers={"anyOf": [
            object_of(
                "referrers referrerCount complete",
                referrers=list_of(object_of(
                    "subject version deleted to",
                    subject=TEXT, version=INT, deleted=BOOL,
                    to={**INT, "description": "The version that it refers to"},
                )),
                referrerCount={**INT, "description": "Of those that may be read"},
                complete={**BOOL, "description": "False: there may be more"},
            ),
            _ERROR,
        ]},
        askers={"anyOf": [object_of("since askers", **_ASKERS_SHORT), _ERROR]},
    ),
    "SearchResults": object_of(
        "hits next cut complete built offset",
        hits=list_of(object_of(
            "subject version id schemaType matches",
            subject=TEXT, version={**INT, "description": "The newest version"}, id=INT, schemaType=TEXT,
            matches={
                **list_of(object_of(
                    "kind path text ranges",
                    kind={"enum": [*HIT_KINDS]},
                    path={**TEXT, "description": "Of the field or type, or the property's name"},
                    text={**TEXT, "description": "The text, or a part of a long one"},
                    ranges={
                        **list_of({"type": "array", "items": INT, "minItems": 2, "maxItems": 2}),
                        "description": "Where words are found in it: begins and ends, in characters",
                    },
                )),
                "description": "The first matches, at most five",
            },
        )),
        next={**nullable(TEXT), "description": "The cursor of the next page; null: there is none"},
        cut={**BOOL, "description": "True if the words are in too many names to examine all"},
        complete={**BOOL, "description": "False while the index is being built: more may be found later"},
        built={"type": "number", "description": "The part of the index that is there, from 0 to 1"},
        offset={**LONG, "description": "The index holds changes before this offset"},
    ),
    "Subjects": {"anyOf": [list_of(TEXT), list_of(ref("SubjectDetails"))]},
    "Timeline": object_of(
        "subject compatibilityLevel versions next",
        subject=TEXT,
        compatibilityLevel={**TEXT, "description": "In effect, by which versions are compared"},
        versions=list_of(object_of(
            "version id schemaType ts deleted",
            version=INT, id=INT, schemaType=TEXT, ts=LONG, deleted=BOOL,
            principal={**TEXT, "description": "Who registered it; absent if unknown"},
            deletedBy={**TEXT, "description": "Who soft-deleted it; absent if unknown, or with all others"},
            previous={**INT, "description": "The version below it in the list, which it is compared with"},
            previousType={**TEXT, "description": "The type of that version, if it is another one"},
            added={**INT, "description": "Fields that the previous version lacks"},
            removed={**INT, "description": "Fields that only the previous version has"},
            changed={**INT, "description": "Fields and types that both have, with differences"},
            compatible={**BOOL, "description": "False if the level in effect does not let it follow"},
            tags={**list_of(TEXT), "description": "In the schema and its metadata"},
            rules={**INT, "description": "Number of rules"},
            references={**INT, "description": "Number of references"},
        )),
        next=nullable({**INT, "description": "Send it as below for the next page"}),
    ),
    "Quarantine": list_of(object_of("offset reason key", offset=LONG, reason=TEXT, key=TEXT)),
    "ReferenceGraph": object_of(
        "nodes edges complete",
        nodes=list_of(
            object_of(
                "subject version depth",
                subject=TEXT, version=INT, id=INT, schemaType=TEXT, deleted=BOOL,
                depth={**INT, "description": "Steps from the version asked for; negative: it uses that one"},
                missing={**BOOL, "description": "True for a reference to a version that does not exist"},
            )
        ),
        edges={
            **list_of(object_of("from to name", **{"from": INT, "to": INT, "name": TEXT})),
            "description": "References between the nodes, by their places in the list",
        },
        complete={**BOOL, "description": "False if there are more than limit"},
    ),
    "Scopes": object_of(
        "subject config mode origins defaultLevel scopes",
        subject=TEXT,
        config={**ref("Config"), "description": "In force"},
        mode={**TEXT, "description": "In force"},
        origins={
            "type": "object",
            "additionalProperties": TEXT,
            "description": "The scope that each member of config comes from, named as in scopes, except for "
            "the server's default and scopes that the principal may not see",
        },
        defaultLevel={**TEXT, "description": "The level where none is stored, a setting of the server"},
        versions={
            **INT,
            "description": "Of a subject that may be read: the number of its own versions that are not "
            "soft-deleted, also if it is an alias",
        },
        answering={
            **ref("Scopes"),
            "description": "Of an alias, the same for its target, if the principal may see that",
        },
        scopes={
            **list_of(
                object_of(
                    "scope",
                    scope={**TEXT, "description": "A subject, or a context as :.ctx:; empty: the top level"},
                    config=nullable(ref("Config")), mode=nullable(TEXT),
                    etags={
                        **object_of("config mode", config=nullable(TEXT), mode=nullable(TEXT)),
                        "description": "What If-Match has to say to change the config or mode of the scope; "
                        "null: there is none",
                    },
                    hidden={**BOOL, "description": "True if the principal may not see the stored value"},
                )
            ),
            "description": "In the order of precedence",
        },
    ),
    "Snapshot": object_of("id state log offset uri requested_ms updated_ms", **_SNAPSHOT),
    "Snapshots": list_of(ref("Snapshot")),
    "IdUsage": object_of(
        "context highest reserved used free",
        context=TEXT,
        highest={**INT, "description": "The highest id that a version has; 0: none"},
        reserved={**INT, "description": "The highest reserved id"},
        used={"type": "number", "description": "The share of all possible ids that is used up"},
        free={
            **list_of(object_of("from to", **{"from": INT, "to": INT})),
            "description": "Ids below reserved that new schemas get when the ids above are used up",
        },
    ),
    "IdUsages": list_of(ref("IdUsage")),
    "IdRelease": object_of(
        "from",
        context={**TEXT, "description": "Default: the default context"},
        **{"from": INT, "to": {**INT, "description": "Default: the highest possible id"}},
    ),
    "DuplicatesLine": {
        **object_of(
            progress=object_of(
                "step done total",
                step=TEXT, done=LONG, total={**LONG, "description": "0: not known yet"},
            ),
            group=object_of(
                "schemaType normalized distinct contents",
                schemaType=TEXT, normalized={**TEXT, "description": "The guid of their normal form"},
                distinct={**LONG, "description": "The number of its schemas; the first are listed"},
                contents=list_of(_CONTENT),
            ),
            found=object_of(
                "groups listed",
                groups={**LONG, "description": "The number of all groups"}, listed=LONG,
            ),
            error=ref("Error"),
        ),
        "description": "Each line has one of these members; found or error comes last",
        "minProperties": 1,
        "maxProperties": 1,
    },
    "Census": object_of(_CENSUS_ALWAYS, **_CENSUS),
    "NewestCensus": object_of(
        _CENSUS_ALWAYS,
        **_CENSUS,
        unusedSubjects=list_of(object_of("subject unused", subject=TEXT, unused=INT)),
        examined={**INT, "description": "Subjects that were examined for unused versions"},
        more={**BOOL, "description": "Not all subjects were examined"},
    ),
    "SubjectVersionUsage": object_of(
        "subject census versions",
        subject=TEXT, census=_AS_OF, versions=list_of(object_of("version", version=INT, **_VERSION_USAGE)),
    ),
    "SchemaUsage": object_of(
        "id context known census",
        context=TEXT, census=_AS_OF, known={**BOOL, "description": "False: no version has this id"},
        **_VERSION_USAGE,
    ),
    "SubjectAskers": object_of("subject since askers", subject=TEXT, **_ASKERS),
    "SchemaAskers": object_of("id context since askers", id=INT, context=TEXT, **_ASKERS),
    "AuditEntries": object_of(
        "entries cursor nodes missing",
        entries={**list_of({"type": "object"}), "description": "Newest first, with the members of its lines"},
        cursor={**nullable(TEXT), "description": "For older entries; null: there are none"},
        nodes=list_of(
            object_of(
                "node destination topic oldest problem",
                node=TEXT, topic=TEXT, problem={**TEXT, "description": "Why its entries are missing, if so"},
                destination={"enum": ["file", "topic", "stdout", "none"]},
                oldest={**nullable(TEXT), "description": "Time of the oldest entry that was looked at"},
            )
        ),
        missing={**list_of(TEXT), "description": "URLs of the nodes that did not answer"},
    ),
    "SubjectUsages": list_of(
        object_of(
            "subject versions used unknown unused",
            subject=TEXT, versions=INT, used=INT, unknown=INT, **_SUMMARY,
            latest={**nullable(INT), "description": "The latest version; null: all are soft-deleted"},
            hasTopic={**BOOL, "description": "The census found the topic that the subject is named after"},
            unused=list_of(
                object_of(
                    "version id ts deleted deletedAt",
                    version=INT, id=INT, ts=LONG, deleted=BOOL, deletedAt=nullable(LONG),
                )
            ),
        )
    ),
    "UnknownUses": list_of(
        object_of(
            "source context problem use",
            source=TEXT, context=TEXT, use=nullable(_USE),
            problem={
                "enum": ["unknown", "unframed", "topic"],
                "description": "An id that nobody knows, bytes that name none, or a topic without a subject",
            },
        )
    ),
    "Usage": _USAGE,
    "Usages": list_of(ref("Usage")),
    "Configs": list_of(object_of("subject config", subject=TEXT, config=ref("Config"))),
    "Modes": list_of(object_of("subject mode", subject=TEXT, mode=ref("Mode"))),
    "Metrics": TEXT,
    "OpenApi": {"type": "object"},
}  # fmt: skip
