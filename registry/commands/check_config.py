"""The command ``registrar check-config``."""

from __future__ import annotations

import sys

from registry.config.loading import Loaded, as_toml
from registry.security import exposure


def check_config(loaded: Loaded) -> int:
    """Print the settings, their warnings, and what is wrong with certificates; return the exit code."""
    print(as_toml(loaded), end="")
    from registry.security.tls import expiry  # noqa: PLC0415 (its library costs time)

    settings = loaded.settings
    found, warned = expiry.problems(settings), [*exposure.warnings(settings), *expiry.warnings(settings)]
    for text in (*found, *(f"warning: {each}" for each in warned)):
        print(f"registrar: {text}", file=sys.stderr)
    return 1 if found else 0
