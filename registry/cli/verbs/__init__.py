"""The verbs of ``registrar``, a row for each: add yours here."""

from __future__ import annotations

from registry.cli.verb import VerbRow

_HERE = "registry.cli.verbs."
_SERVER, _CLIENT, _FILES = "Serve", "Use a registry", "Maintain"
_FOLDERS, _APPLY = "Manage schemas as files", _HERE + "apply_folder:"

VERBS = (
    VerbRow(_SERVER, "serve", _HERE + "serve:serve", "Serve the registry until a signal stops it."),
    VerbRow(_SERVER, "check-config", _HERE + "serve:check_config", "Print the effective settings."),
    VerbRow(_SERVER, "health", _HERE + "status:health", "Check the health of the local registry."),
    VerbRow(_CLIENT, "register", _HERE + "register:register", "Register a schema."),
    VerbRow(_CLIENT, "show", _HERE + "subjects:show", "Show a schema by subject and version, id or guid."),
    VerbRow(_CLIENT, "subjects", _HERE + "subjects:subjects", "List the subjects."),
    VerbRow(_CLIENT, "search", _HERE + "search:search", "Find subjects by names, fields, tags and docs."),
    VerbRow(_CLIENT, "versions", _HERE + "subjects:versions", "List the versions of a subject."),
    VerbRow(
        _CLIENT,
        "diff",
        _HERE + "diff:diff",
        "Compare two schemas and show in which directions they are compatible.",
    ),
    VerbRow(
        _CLIENT,
        "delete",
        _HERE + "delete:delete",
        "Delete a subject or version, after showing what it would break.",
    ),
    VerbRow(_CLIENT, "undelete", _HERE + "delete:undelete", "Restore a soft-deleted subject or version."),
    VerbRow(_CLIENT, "config", _HERE + "scopes:config", "Show or change compatibility levels."),
    VerbRow(_CLIENT, "mode", _HERE + "scopes:mode", "Show or change which writes are accepted."),
    VerbRow(_CLIENT, "changes", _HERE + "feed:changes", "Print changes, and follow new ones."),
    VerbRow(_CLIENT, "history", _HERE + "feed:history", "Print the history of a subject."),
    VerbRow(_CLIENT, "status", _HERE + "status:status", "Show the state of every node."),
    VerbRow(_CLIENT, "decode", _HERE + "decode:decode", "Decode Kafka messages to JSON."),
    VerbRow(_CLIENT, "doctor", _HERE + "doctor:doctor", "Diagnose nodes and their dependencies."),
    VerbRow(
        _CLIENT,
        "torture",
        _HERE + "torture:torture",
        "Test whether a registry keeps its promises under load and faults.",
    ),
    VerbRow(_FOLDERS, "check", _HERE + "check:check", "Check whether a registry would accept schema files."),
    VerbRow(_FOLDERS, "lint", _HERE + "check:lint", "Check schema files against lint rules."),
    VerbRow(_FOLDERS, "apply", _APPLY + "apply_folder", "Sync a registry to a folder of schemas."),
    VerbRow(_FOLDERS, "download", _APPLY + "download", "Download schemas into a folder."),
    VerbRow(
        _FOLDERS, "upload", _APPLY + "upload", "Register the schemas of a folder or an exported snapshot."
    ),
    VerbRow(_FOLDERS, "promote", _APPLY + "promote", "Copy schemas from one registry to another."),
    VerbRow(_FILES, "webhook", _HERE + "feed:webhook", "Send change events to HTTP receivers."),
    VerbRow(_FILES, "snapshot", _HERE + "storage:snapshot", "Build, check, restore and compare snapshots."),
    VerbRow(_FILES, "census", _HERE + "census:census", "Count which schemas the messages of topics use."),
    VerbRow(_FILES, "unused", _HERE + "unused:list_unused", "List or delete versions that no message needs."),
    VerbRow(_FILES, "ids", _HERE + "subjects:ids", "Show id usage, and release reserved ids."),
    VerbRow(_FILES, "duplicates", _HERE + "storage:duplicates", "List duplicate schemas."),
    VerbRow(_FILES, "log", _HERE + "storage:log", "Rebuild a lost topic from a node's store."),
    VerbRow(_FILES, "user", _HERE + "access:user", "Manage the users file."),
    VerbRow(_FILES, "acl", _HERE + "access:acl", "Explain and check access rules."),
    VerbRow(_FILES, "completion", "registry.cli.program:completion", "Print a shell completion script."),
)
