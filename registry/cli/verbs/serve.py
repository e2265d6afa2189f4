"""``registrar serve`` and ``registrar check-config``."""

from __future__ import annotations

import sys

import click

from registry.base.config.loading import Loaded, as_toml
from registry.cli.output import FAILED, OK
from registry.cli.setting_flags import ALL_GROUPS, with_settings
from registry.cli.verb import Verb


@click.command(
    cls=Verb,
    epilog="Exit status: 0 valid, 1 a setting is not valid, 2 a file that a setting names is not valid.",
)
@with_settings(*ALL_GROUPS)
def check_config(loaded: Loaded) -> int:
    """Print the effective settings as TOML, each with its origin, and check the files that they name.

    All settings of "registrar serve" are flags here too.
    """
    print(as_toml(loaded), end="")
    from registry.security import exposure  # noqa: PLC0415 - its libraries cost time
    from registry.security.setting_files import file_errors, url_error  # noqa: PLC0415 - as above
    from registry.security.tls import expiry  # noqa: PLC0415 - as above

    settings = loaded.settings
    found = [each for each in file_errors(settings).values() if each]
    warned = [*loaded.warnings, *exposure.warnings(settings), *expiry.warnings(settings)]
    # A start accepts this, and tries again.
    warned.extend(filter(None, [url_error(settings)]))
    if loaded.ignored:
        warned.append(f"not settings, and ignored: {', '.join(loaded.ignored)}")
    for text in (*found, *(f"warning: {each}" for each in warned)):
        print(f"registrar: {text}", file=sys.stderr)
    return FAILED if found else OK


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
    from registry.host import serve  # noqa: PLC0415 - the help needs no server

    return serve.serve(loaded.settings, loaded.ignored, loaded.warnings)
