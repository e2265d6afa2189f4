"""The command ``registrar check-config``."""

from __future__ import annotations

import sys

from registry.config.loading import Loaded, as_toml


def check_config(loaded: Loaded) -> int:
    """Print the settings, and what is wrong with certificates; return the exit code."""
    print(as_toml(loaded), end="")
    from registry.security.tls.expiry import problems, warnings  # noqa: PLC0415 (its library costs time)

    found = problems(loaded.settings)
    for text in (*found, *(f"warning: {each}" for each in warnings(loaded.settings))):
        print(f"registrar: {text}", file=sys.stderr)
    return 1 if found else 0
