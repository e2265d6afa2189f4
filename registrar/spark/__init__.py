"""Messages of Kafka in PySpark, with the schemas of a registry (docs/pyspark.md)."""

from __future__ import annotations

try:
    from .client import Refused, Registry, RegistryError
    from .columns import from_registry, to_registry
    from .framing import Malformed
    from .source import RegistrarSource
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"registrar.spark lacks {error.name}: pip install 'kafka-registrar[spark]'", name=error.name
    ) from error

__all__ = [
    "Malformed",
    "Refused",
    "RegistrarSource",
    "Registry",
    "RegistryError",
    "from_registry",
    "to_registry",
]
