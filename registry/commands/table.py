"""The verbs of ``registrar``, a row for each: add yours here."""

from __future__ import annotations

from registry.command_line.verbs import VerbRow

_HERE = "registry.commands."
_SERVER, _CLIENT, _FILES = "Serve", "Use a registry, by its URL", "Maintain"

VERBS = (
    VerbRow(_SERVER, "serve", _HERE + "serve:serve", "Serve the registry until a signal stops it."),
    VerbRow(_SERVER, "check-config", _HERE + "check_config:check_config", "Print the settings in force."),
    VerbRow(_SERVER, "config", _HERE + "config_map:config", "Print what another registry's settings become."),
    VerbRow(_CLIENT, "subjects", _HERE + "subjects:subjects", "List the subjects."),
    VerbRow(_FILES, "snapshot", _HERE + "snapshot:snapshot", "Build, check, restore and compare snapshots."),
    VerbRow(_FILES, "duplicates", _HERE + "duplicates:duplicates", "List schemas that are equal."),
    VerbRow(_FILES, "log", _HERE + "log:log", "Write a lost topic again from a store."),
    VerbRow(_FILES, "user", _HERE + "user:user", "Edit the file of users."),
    VerbRow(_FILES, "acl", _HERE + "acl:acl", "Explain and check the rules of access."),
    VerbRow(_FILES, "completion", _HERE + "completion:completion", "Print the completion of a shell."),
    VerbRow("", "schemas", _HERE + "duplicates:schemas", "Find equal schemas."),
)
