"""``registrar serve``."""

from __future__ import annotations

import click

from registry.base.config.loading import Loaded
from registry.cli.setting_flags import ALL_GROUPS, with_settings
from registry.cli.verb import Verb

# The settings that most people need; the help shows only these.
_SHOWN = (
    "listen", "data", "readers",
    "kafka", "topic", "advertise", "peer_secret_file",
    "tls_certificate", "tls_key",
    "users", "rules",
    "compatibility", "policies",
    "snapshots",
    "log_format",
)  # fmt: skip
_EXAMPLES = """\
\b
Examples:
  registrar serve                              on http://127.0.0.1:8081, data in ./data
  registrar serve --listen 0.0.0.0:8081        serve other machines (see --users for passwords)
  registrar serve --kafka HOST:PORT            one of several nodes that share a Kafka topic
  registrar serve --properties FILE            in place of Confluent's registry, with its settings

Every setting can be given in a TOML file, in the environment or as a flag; later ones win. All of them are in
"registrar serve --help-all" and docs/settings.md.
"""


@click.command(cls=Verb, epilog=_EXAMPLES)
@with_settings(*ALL_GROUPS, shown=_SHOWN)
def serve(loaded: Loaded) -> int:
    """Serve the registry until a signal stops it.

    Exit status: 0 stopped by a signal, 1 settings or the start were refused.
    """
    from registry.host.supervisor import serve  # noqa: PLC0415 - the help needs no server

    return serve.serve(loaded.settings, loaded.ignored, loaded.warnings)
