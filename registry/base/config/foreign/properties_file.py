"""Reading a file of Java properties, such as ``schema-registry.properties``."""

from __future__ import annotations

from pathlib import Path

BYTES_MAX = 1024 * 1024  # a longer file is not one of settings


def read(file: Path) -> list[tuple[str, str]]:
    """Return names and values in their order. Raises :class:`OSError` and :class:`ValueError`.

    Java reads ISO-8859-1; what is valid UTF-8 is read as that.
    """
    import javaproperties  # noqa: PLC0415 (only for those who come from another registry)

    with file.open("rb") as opened:
        content = opened.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError("it is too long for a file of settings")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return [
        (item.key, item.value)
        for item in javaproperties.parse(text)
        if isinstance(item, javaproperties.KeyValue)
    ]
