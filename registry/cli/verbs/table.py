"""The verbs of ``registrar``, a row for each: add yours here."""

from __future__ import annotations

from registry.cli.verb_groups import VerbRow

_HERE = "registry.cli.verbs."
_SERVER, _CLIENT, _FILES = "Serve", "Use a registry, by its URL", "Maintain"
_FOLDERS, _APPLY = "Schemas in files and between registries", _HERE + "apply_folder:"

VERBS = (
    VerbRow(_SERVER, "serve", _HERE + "serve:serve", "Serve the registry until a signal stops it."),
    VerbRow(_SERVER, "check-config", _HERE + "check_config:check_config", "Print the settings in force."),
    VerbRow(_SERVER, "health", _HERE + "health:health", "Check the health of the local registry."),
    VerbRow(_CLIENT, "register", _HERE + "register:register", "Register a schema."),
    VerbRow(_CLIENT, "show", _HERE + "show:show", "Show a schema by subject and version, id or guid."),
    VerbRow(_CLIENT, "subjects", _HERE + "subjects:subjects", "List the subjects."),
    VerbRow(_CLIENT, "versions", _HERE + "versions:versions", "List the versions of a subject."),
    VerbRow(_CLIENT, "diff", _HERE + "diff:diff", "Compare two schemas, and tell who can read whose data."),
    VerbRow(_CLIENT, "delete", _HERE + "delete:delete", "Delete a subject or a version, consequences first."),
    VerbRow(_CLIENT, "undelete", _HERE + "undelete:undelete", "Bring back what was deleted softly."),
    VerbRow(_CLIENT, "config", _HERE + "scope_config:config", "Show or change levels of compatibility."),
    VerbRow(_CLIENT, "mode", _HERE + "mode:mode", "Show or change which writes are accepted."),
    VerbRow(_CLIENT, "changes", _HERE + "changes:changes", "Print changes, and wait for further ones."),
    VerbRow(_CLIENT, "history", _HERE + "changes:history", "Print what happened to a subject."),
    VerbRow(_CLIENT, "status", _HERE + "status:status", "Show the state of every node."),
    VerbRow(_CLIENT, "decode", _HERE + "decode:decode", "Print messages of producers as JSON."),
    VerbRow(_CLIENT, "doctor", _HERE + "doctor:doctor", "Examine nodes and what they depend on, and advise."),
    VerbRow(_FOLDERS, "check", _HERE + "check:check", "Check if a registry would accept schema files."),
    VerbRow(_FOLDERS, "lint", _HERE + "check:lint", "Check that schema files follow rules."),
    VerbRow(_FOLDERS, "apply", _APPLY + "apply_folder", "Make a registry hold what a folder holds."),
    VerbRow(_FOLDERS, "download", _APPLY + "download", "Write schemas of a registry into a folder."),
    VerbRow(_FOLDERS, "upload", _APPLY + "upload", "Register what a folder or an exported snapshot holds."),
    VerbRow(_FOLDERS, "promote", _APPLY + "promote", "Register schemas of one registry in another."),
    VerbRow(_FILES, "webhook", _HERE + "webhook:webhook", "Register receivers that are told what changes."),
    VerbRow(_FILES, "snapshot", _HERE + "snapshot:snapshot", "Build, check, restore and compare snapshots."),
    VerbRow(_FILES, "ids", _HERE + "ids:ids", "Show how many ids are used, and release reserved ones."),
    VerbRow(_FILES, "duplicates", _HERE + "duplicates:duplicates", "List schemas that are equal."),
    VerbRow(_FILES, "log", _HERE + "log:log", "Write a lost topic again from a store."),
    VerbRow(_FILES, "user", _HERE + "user:user", "Edit the file of users."),
    VerbRow(_FILES, "acl", _HERE + "acl:acl", "Explain and check the rules of access."),
    VerbRow(_FILES, "completion", _HERE + "completion:completion", "Print the completion of a shell."),
    VerbRow("", "schemas", _HERE + "duplicates:schemas", "Find equal schemas."),
)
