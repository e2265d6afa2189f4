"""The route table: everything that is served, and nothing else is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson

from registry.domain import errors as e

from . import associations, compatibility, openapi, schemas, scopes, server, subjects
from .answers import Answer
from .backend import Backend
from .operations import Call, Fresh, NodeHandler, Operation
from .parameters import flag, number, text, texts

_OFFSET = number("offset", "How many to leave out at the start", 0)
_LIMIT = number("limit", "How many at most; -1: as many as the server allows", -1)
_PAGE = (_OFFSET, _LIMIT)
_DELETED = flag("deleted", "Soft-deleted ones too")
_DELETED_ONLY = flag("deletedOnly", "Only soft-deleted ones; wins over deleted")
_PERMANENT = flag("permanent", "Delete for good what is already soft-deleted")
_NORMALIZE = flag("normalize", "Normalise the schema first")
_FORMAT = text("format", "Form of the schema text, such as resolved")
_REFERENCE_FORMAT = text("referenceFormat", "qualified: print the references' subjects with their context")
_VERBOSE = flag("verbose", "Say why it is incompatible")
_SCOPE = text("subject", "The subject, or the context as :.ctx:, in which the id is sought")
_DEFAULT_TO_GLOBAL = flag("defaultToGlobal", "What holds, instead of what is stored")
_FORCE = flag("force", "Skip the check")
_DRY_RUN = flag("dryRun", "Check only")
_CONTEXT = text("context", "The context of unqualified subjects")
_ASSOCIATED = (
    text("resourceType", "The kind of resource", "topic"),
    texts("associationType", "key or value"),
    text("lifecycle", "STRONG or WEAK"),
    *_PAGE,
)

_VERSION_MISSING = (e.INVALID_VERSION, e.SUBJECT_NOT_FOUND, e.VERSION_NOT_FOUND)
_WRITE = (e.NOT_PERMITTED, e.STORE_FAILED, e.OUTCOME_UNKNOWN, e.FORWARD_FAILED, e.NO_PRIMARY)
_BODY = (e.BAD_REQUEST, e.BODY_TOO_LARGE, e.BODY_TIMEOUT, e.UNSUPPORTED_MEDIA_TYPE, e.UNPROCESSABLE)

_SUBJECTS = (
    Operation(
        method="GET", path="/subjects", summary="List the subjects of all contexts, sorted",
        handler=subjects.list_subjects, gives="Names",
        parameters=(text("subjectPrefix", "Beginning of the qualified name", ":*:"), _DELETED, _DELETED_ONLY, *_PAGE),
    ),
    Operation(
        method="POST", path="/subjects/{subject}", summary="Find a schema under a subject",
        handler=subjects.look_up, takes="RegisterSchemaRequest", gives="Schema",
        parameters=(_NORMALIZE, _FORMAT, _DELETED),
        errors=(e.INVALID_SCHEMA, e.SUBJECT_NOT_FOUND, e.SCHEMA_NOT_FOUND, *_BODY),
    ),
    Operation(
        method="DELETE", path="/subjects/{subject}", summary="Delete all versions of a subject",
        handler=subjects.delete_subject, gives="Numbers", parameters=(_PERMANENT,),
        errors=(
            e.SUBJECT_NOT_FOUND, e.SUBJECT_SOFT_DELETED, e.SUBJECT_NOT_SOFT_DELETED, e.REFERENCE_EXISTS, *_WRITE,
        ),
    ),
    Operation(
        method="GET", path="/subjects/{subject}/metadata", summary="The highest version with these properties",
        handler=subjects.find_by_metadata, gives="Schema",
        parameters=(
            texts("key", "Name of a property; paired with value"), texts("value", "Value of a property"),
            _FORMAT, _DELETED,
        ),
        errors=(e.SUBJECT_NOT_FOUND, e.SCHEMA_NOT_FOUND),
    ),
    Operation(
        method="GET", path="/subjects/{subject}/versions", summary="List the versions of a subject",
        handler=subjects.list_versions, gives="Numbers",
        parameters=(
            _DELETED, _DELETED_ONLY, flag("deletedAsNegative", "Soft-deleted ones as negative numbers"), *_PAGE,
        ),
        errors=(e.SUBJECT_NOT_FOUND,),
    ),
    Operation(
        method="POST", path="/subjects/{subject}/versions", summary="Register a schema under a subject",
        handler=subjects.register, takes="RegisterSchemaRequest", gives="RegisterSchemaResponse",
        parameters=(_NORMALIZE, _FORMAT, _FORCE),
        errors=(
            e.INVALID_SCHEMA, e.INVALID_SUBJECT, e.SCHEMA_TOO_LARGE, e.INVALID_RULE_SET, e.INCOMPATIBLE,
            *_WRITE, *_BODY,
        ),
    ),
    Operation(
        method="GET", path="/subjects/{subject}/versions/{version}", summary="A version of a subject",
        handler=subjects.get_version, gives="Schema", parameters=(_FORMAT, _REFERENCE_FORMAT, _DELETED),
        errors=(*_VERSION_MISSING, e.INVALID_SCHEMA),
    ),
    Operation(
        method="DELETE", path="/subjects/{subject}/versions/{version}", summary="Delete a version",
        handler=subjects.delete_version, gives="Id", parameters=(_PERMANENT,),
        errors=(
            *_VERSION_MISSING, e.VERSION_SOFT_DELETED, e.VERSION_NOT_SOFT_DELETED, e.REFERENCE_EXISTS, *_WRITE,
        ),
    ),
    Operation(
        method="GET", path="/subjects/{subject}/versions/{version}/schema", summary="The bare text of a version",
        handler=subjects.get_version_text, gives="SchemaText", parameters=(_FORMAT, _DELETED),
        errors=(*_VERSION_MISSING, e.INVALID_SCHEMA),
    ),
    Operation(
        method="GET", path="/subjects/{subject}/versions/{version}/referencedby",
        summary="The ids of the schemas that refer to a version",
        handler=subjects.list_referrers, gives="Numbers", parameters=(_DELETED, *_PAGE), errors=_VERSION_MISSING,
    ),
)  # fmt: skip

_SCHEMAS = (
    Operation(
        method="GET", path="/schemas", summary="List schemas by subject and version",
        handler=schemas.list_schemas, gives="Schemas",
        parameters=(
            text("subjectPrefix", "Beginning of the qualified name; nothing: the default context"),
            flag("aliases", "With the subjects that aliases lead to"), _DELETED,
            flag("latestOnly", "Only the latest version of each subject"),
            text("ruleType", "Only those that have a rule of this type"), *_PAGE,
        ),
    ),
    Operation(
        method="GET", path="/schemas/types", summary="The schema types that can be registered",
        handler=server.schema_types, gives="Names", fresh=Fresh.NEVER,
    ),
    Operation(
        method="GET", path="/schemas/ids/{id}", summary="A schema by its id",
        handler=schemas.get_by_id, gives="SchemaString", fresh=Fresh.ON_MISS,
        parameters=(_SCOPE, _FORMAT, _REFERENCE_FORMAT, flag("fetchMaxId", "With the highest id of the context")),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET", path="/schemas/ids/{id}/schema", summary="The bare text of a schema by its id",
        handler=schemas.get_text_by_id, gives="SchemaText", fresh=Fresh.ON_MISS,
        parameters=(_SCOPE, _FORMAT), errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET", path="/schemas/ids/{id}/subjects", summary="The subjects that hold an id",
        handler=schemas.list_subjects_of_id, gives="Names", parameters=(_SCOPE, _DELETED, *_PAGE),
        errors=(e.SCHEMA_NOT_FOUND,),
    ),
    Operation(
        method="GET", path="/schemas/ids/{id}/versions", summary="The versions that hold an id, one a subject",
        handler=schemas.list_versions_of_id, gives="SubjectVersions", parameters=(_SCOPE, _DELETED, *_PAGE),
        errors=(e.SCHEMA_NOT_FOUND,),
    ),
    Operation(
        method="GET", path="/schemas/guids/{guid}", summary="A schema by its guid",
        handler=schemas.get_by_guid, gives="SchemaString", fresh=Fresh.ON_MISS, parameters=(_FORMAT,),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET", path="/schemas/guids/{guid}/ids", summary="Every context and id of a guid",
        handler=schemas.list_ids_of_guid, gives="ContextIds",
    ),
)  # fmt: skip

_COMPATIBILITY = (
    Operation(
        method="POST", path="/compatibility/subjects/{subject}/versions/{version}",
        summary="Whether a schema is compatible with one version",
        handler=compatibility.check_version, takes="RegisterSchemaRequest", gives="CompatibilityCheckResponse",
        parameters=(_NORMALIZE, _VERBOSE),
        errors=(e.INVALID_VERSION, e.VERSION_NOT_FOUND, e.INVALID_SCHEMA, *_BODY),
    ),
    Operation(
        method="POST", path="/compatibility/subjects/{subject}/versions",
        summary="Whether a schema is compatible with the versions that the level names",
        handler=compatibility.check_all, takes="RegisterSchemaRequest", gives="CompatibilityCheckResponse",
        parameters=(_NORMALIZE, _VERBOSE), errors=(e.INVALID_SCHEMA, *_BODY),
    ),
)  # fmt: skip


def _of_scope(path: str, whose: str) -> tuple[Operation, ...]:
    config, mode = path.format("config"), path.format("mode")
    one = "{" in config
    return (
        Operation(
            method="GET", path=config, summary=f"The config of {whose}", handler=scopes.get_config,
            gives="Config", parameters=(_DEFAULT_TO_GLOBAL,), errors=(e.NO_SUBJECT_COMPATIBILITY,) if one else (),
            tag="Config",
        ),
        Operation(
            method="PUT", path=config, summary=f"Change the config of {whose}", handler=scopes.put_config,
            takes="ConfigUpdateRequest", gives="ConfigUpdateRequest", tag="Config",
            errors=(e.INVALID_COMPATIBILITY, e.INVALID_RULE_SET, e.INVALID_SUBJECT, *_WRITE, *_BODY),
        ),
        Operation(
            method="DELETE", path=config, summary=f"Remove the config of {whose}", handler=scopes.delete_config,
            gives="Config", errors=(*((e.SUBJECT_NOT_FOUND,) if one else ()), *_WRITE), tag="Config",
        ),
        Operation(
            method="GET", path=mode, summary=f"The mode of {whose}", handler=scopes.get_mode, gives="Mode",
            parameters=(_DEFAULT_TO_GLOBAL,), errors=(e.NO_SUBJECT_MODE,) if one else (), tag="Mode",
        ),
        Operation(
            method="PUT", path=mode, summary=f"Set the mode of {whose}", handler=scopes.put_mode,
            takes="ModeUpdateRequest", gives="ModeUpdateRequest", parameters=(_FORCE,), tag="Mode",
            errors=(e.INVALID_SUBJECT, e.INVALID_MODE, e.FORWARD_ONLY_GLOBAL, e.REFERENCE_EXISTS, *_WRITE, *_BODY),
        ),
        Operation(
            method="DELETE", path=mode, summary=f"Remove the mode of {whose}", handler=scopes.delete_mode,
            gives="Mode", parameters=(flag("recursive", "The modes of a context's subjects too"),), tag="Mode",
            errors=(*((e.SUBJECT_NOT_FOUND,) if one else ()), *_WRITE),
        ),
    )  # fmt: skip


_CONTEXTS = (
    Operation(
        method="GET", path="/contexts", summary="List the contexts", handler=scopes.list_contexts, gives="Names",
        parameters=(text("contextPrefix", "Beginning of the name, which starts with a dot"), *_PAGE),
    ),
    Operation(
        method="DELETE", path="/contexts/{context}", summary="Forget an empty context",
        handler=scopes.delete_context, status=204, errors=(e.CONTEXT_NOT_EMPTY, *_WRITE),
    ),
)  # fmt: skip

_SERVER = (
    Operation(method="GET", path="/", summary="Nothing", handler=server.root, gives="Empty", fresh=Fresh.NEVER),
    Operation(method="POST", path="/", summary="Nothing", handler=server.root, gives="Empty", fresh=Fresh.NEVER),
    Operation(
        method="GET", path="/v1/metadata/id", summary="The ids of the clusters",
        node_handler=server.cluster_id, gives="ServerClusterId",
    ),
    Operation(
        method="GET", path="/v1/metadata/version", summary="The version of the server",
        handler=server.version, gives="SchemaRegistryServerVersion", fresh=Fresh.NEVER,
    ),
    Operation(
        method="GET", path="/v1/metadata/deployment", summary="Attributes of the deployment: none",
        handler=server.deployment, gives="SchemaRegistryDeployment", fresh=Fresh.NEVER,
    ),
)  # fmt: skip

_ASSOCIATIONS = (
    Operation(
        method="GET", path="/associations/subjects/{subject}", summary="The associations of a subject",
        handler=associations.list_associations, gives="Associations", parameters=_ASSOCIATED,
    ),
    Operation(
        method="GET", path="/associations/resources/{namespace}/{name}", summary="The associations of a resource",
        handler=associations.list_associations, gives="Associations", parameters=_ASSOCIATED,
    ),
    Operation(
        method="GET", path="/associations/resources/{resource}", summary="The associations of a resource by its id",
        handler=associations.list_associations, gives="Associations", parameters=_ASSOCIATED,
    ),
    Operation(
        method="POST", path="/associations", summary="Make associations: not served, always refused",
        handler=associations.make_association, takes="AssociationRequest", gives="AssociationResponse",
        parameters=(_CONTEXT, _DRY_RUN), errors=(e.ASSOCIATION_INVALID, *_BODY),
    ),
    Operation(
        method="PUT", path="/associations/resources/{resource}", summary="Change associations: always refused",
        handler=associations.make_association, takes="AssociationRequest", gives="AssociationResponse",
        parameters=(_CONTEXT, _DRY_RUN), errors=(e.ASSOCIATION_INVALID, *_BODY),
    ),
    Operation(
        method="DELETE", path="/associations/resources/{resource}", summary="Remove associations: there are none",
        handler=associations.delete_association, status=204, errors=(e.ASSOCIATION_NOT_FOUND,),
        parameters=(
            *_ASSOCIATED[:2], flag("cascadeLifecycle", "Delete the subjects of strong ones"), _DRY_RUN,
        ),
    ),
    Operation(
        method="POST", path="/associations:batchGet", summary="The associations of several resources",
        handler=associations.get_associations, takes="AssociationBatchRequest", gives="AssociationBatchResponse",
        status=207, parameters=(flag("includeSchemas", "With their schemas"),), errors=_BODY,
    ),
    Operation(
        method="POST", path="/associations:batchMutate", summary="Change several associations: each is refused",
        handler=associations.change_associations, takes="AssociationBatchRequest", gives="AssociationBatchResponse",
        status=207, parameters=(_CONTEXT, _DRY_RUN), errors=_BODY,
    ),
)  # fmt: skip

_OWN = (
    Operation(
        method="GET", path="/health/live", summary="This process answers", node_handler=server.live, gives="Health",
    ),
    Operation(
        method="GET", path="/health/started", summary="The log was read once; 503 until then",
        node_handler=server.started, gives="Health", errors=(e.UNAVAILABLE,),
    ),
    Operation(
        method="GET", path="/health/ready", summary="Everything can be served; else 503 with the reasons",
        node_handler=server.ready, gives="Health", errors=(e.UNAVAILABLE,),
    ),
    Operation(
        method="GET", path="/node", summary="Role, epoch, offsets and digest of the node",
        node_handler=server.node, gives="Node",
    ),
    Operation(
        method="GET", path="/quarantine", summary="The records of the log that could not be read",
        handler=server.quarantine, gives="Quarantine",
    ),
)  # fmt: skip


def operations(version: str, metrics: Callable[[], Awaitable[bytes]] | None) -> list[Operation]:
    """Every operation that is served; ``/metrics`` only where ``metrics`` prints them."""
    found = [
        *_tagged("Subjects", _SUBJECTS),
        *_tagged("Schemas", _SCHEMAS),
        *_tagged("Compatibility", _COMPATIBILITY),
        *_of_scope("/{}", "the top level"),
        *_of_scope("/{}/{{subject}}", "a subject or a context"),
        *_tagged("Contexts", _CONTEXTS),
        *_tagged("Server", _SERVER),
        *_tagged("Associations", _ASSOCIATIONS),
        *_own(*_OWN),
    ]
    if metrics is not None:
        found += _own(_get("/metrics", "Metrics for Prometheus", server.metrics_of(metrics), "Metrics"))
    body = b""

    async def api_description(call: Call, backend: Backend) -> Answer:
        return Answer(body, media_type=b"application/json")

    found += _own(_get("/openapi.json", "This description", api_description, "OpenApi"))
    body = orjson.dumps(openapi.document(found, version))
    return found


def _get(path: str, summary: str, handler: NodeHandler, gives: str) -> Operation:
    return Operation(method="GET", path=path, summary=summary, node_handler=handler, gives=gives)


def _tagged(tag: str, group: tuple[Operation, ...]) -> list[Operation]:
    return [replace(operation, tag=tag) for operation in group]


def _own(*group: Operation) -> list[Operation]:
    return [replace(operation, tag="Registrar", own=True) for operation in group]
