"""Libraries for programs that use a registry: :mod:`registrar.spark`. Nothing here serves."""
