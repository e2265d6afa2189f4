"""Sensitive metadata in running registries: encrypted wherever it is stored, in clear text for clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from deploy.local.broker import Broker
from registry.encoder.keyset import Keyset, KeysetFile, carry
from registry.log.contract import LogError
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.support.running import PATIENT, ROOT, Registry, until

PLAIN = "plain-and-sensitive"
OLD, NEW = "the first secret", "the second secret"
METADATA = {"properties": {"owner": "bob", "pw": PLAIN}, "sensitive": ["pw"]}


def register(registry: Registry, subject: str, text: str = '"string"') -> httpx.Response:
    return httpx.post(
        f"{registry.url}/subjects/{subject}/versions",
        json={"schema": text, "metadata": METADATA},
        timeout=PATIENT,
    )


def shown(registry: Registry, subject: str) -> Any:
    found = httpx.get(f"{registry.url}/subjects/{subject}/versions/1", timeout=PATIENT).raise_for_status()
    by_id = httpx.get(f"{registry.url}/schemas/ids/{found.json()['id']}", timeout=PATIENT).raise_for_status()
    assert by_id.json()["metadata"] == found.json()["metadata"]
    return found.json()["metadata"]


def trouble(registry: Registry) -> str:
    said: str = httpx.get(f"{registry.url}/node", timeout=PATIENT).json()["metadata_encoder"]
    return said


def kept_in_clear(folder: Path) -> list[Path]:
    """Return the files that contain clear text."""
    secret = [each.encode() for each in (PLAIN, OLD, NEW)]
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if any(each in path.read_bytes() for each in secret)]


def end(registry: Registry) -> str:
    """Wait for a start that is refused; return the output."""
    until(lambda: registry.process.poll() is not None, 30, "the start to be refused")
    assert registry.process.returncode != 0
    return registry.output


def test_a_registry_alone_encrypts_rotates_and_refuses(tmp_path: Path) -> None:
    data, keyset = tmp_path / "data", tmp_path / "data" / "encoder-keyset.json"
    secret_file = tmp_path.with_name(f"{tmp_path.name}-secret")
    secret_file.write_text(f"{OLD}\n")

    def serve(*flags: str, **environment: str) -> Registry:
        return Registry(data, "--readers", "1", *flags, environment=environment)

    def served(*flags: str, **environment: str) -> Registry:
        return serve(*flags, **environment).wait()

    with closing(Running(served("--metadata-encoder-secret-file", str(secret_file)))) as running:
        assert register(running.registry, "s").json()["metadata"] == METADATA
        assert shown(running.registry, "s") == METADATA
    first = keyset.read_bytes()
    assert keyset.stat().st_mode & 0o777 == 0o600

    assert "does not open the keyset" in end(serve(METADATA_ENCODER_SECRET="another"))
    assert keyset.read_bytes() == first

    with closing(Running(served())) as running:
        stored = shown(running.registry, "s")["properties"]
        assert (stored["__enc__"], stored["pw"] != PLAIN) == ("true", True)
        assert register(running.registry, "s").status_code == 200
        refused = register(running.registry, "t").json()
        assert (refused["error_code"], "metadata_encoder_secret" in refused["message"]) == (42205, True)
        assert "metadata_encoder_secret" in trouble(running.registry)
        assert running.registry.output.count("metadata_encoder_secret") == 1

    rotated = {"METADATA_ENCODER_SECRET": NEW, "METADATA_ENCODER_OLD_SECRET": OLD}
    with closing(Running(served(**rotated))) as running:
        assert register(running.registry, "u").json()["metadata"] == METADATA
        assert (shown(running.registry, "s"), trouble(running.registry)) == (METADATA, "")
    second = Keyset.loads(keyset.read_bytes(), NEW)
    assert second.keys.items() > Keyset.loads(first, OLD).keys.items()

    with closing(Running(served("--readers", "1", REGISTRAR_METADATA_ENCODER_SECRET=NEW))) as running:
        assert [shown(running.registry, each) for each in ("s", "u")] == [METADATA] * 2
    assert not kept_in_clear(tmp_path)


class Running:
    """A registry that is stopped when it is closed."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def close(self) -> None:
        assert self.registry.stop() == 0


@pytest.fixture
def topics(kafka: Broker) -> Iterator[tuple[str, str]]:
    name = uuid4().hex[:8]
    made = (f"schemas-{name}", f"encoders-{name}")
    yield made
    client = AdminClient({"bootstrap.servers": kafka.address})  # The answers need it to exist still.
    for gone in client.delete_topics(list(made)).values():
        gone.result(30)


def records_of(kafka: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    found: list[tuple[bytes | None, bytes | None]] = []
    with closing(
        KafkaLog(Security(), kafka.address, topic, transactional_id="", append_timeout_s=30, fencing=False)
    ) as log:
        offset, end = 0, log.query_end(30)
        while offset < end:
            assert log.wait(offset, 30)
            fetched = log.read(offset, 1000, 1 << 20)
            found += [(each.key, each.value) for each in fetched.records]
            offset = fetched.next
    return found


# In make test, a registry alone has a keyset, and tests/unit/encoder/ those of several.
@pytest.mark.long
def test_the_nodes_of_a_cluster_share_the_keyset(
    kafka: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    schemas, encoders = topics

    def serve(name: str, *flags: str) -> Registry:
        where = ("--kafka", kafka.address, "--topic", schemas, "--group", schemas)
        further = ("--metadata-encoder-topic", encoders, "--readers", "1", *flags)
        return Registry(tmp_path / name, *where, *further)

    secret = ("--metadata-encoder-secret", OLD)
    one, other = serve("one", *secret).wait(), serve("other", *secret).wait()
    assert records_of(kafka, encoders) == []
    for number, (asked, seen) in enumerate(((one, other), (other, one))):
        assert register(asked, f"s{number}").json()["metadata"] == METADATA
        assert shown(seen, f"s{number}") == METADATA
        assert shown(asked, f"s{number}") == METADATA
    ((key, first),) = records_of(kafka, encoders)
    assert first is not None
    assert (key, first[-2:]) == (b"default", b"}\n")
    assert json.loads(first)["keysetInfo"]["primaryKeyId"] == Keyset.loads(first, OLD).primary
    one.stop()
    other.stop()

    assert "does not open the keyset" in end(serve("one", "--metadata-encoder-secret", "another"))
    assert "does not open the keyset" in end(serve("third", "--metadata-encoder-secret", "another"))
    assert records_of(kafka, encoders) == [(b"default", first)]

    both = ("--metadata-encoder-secret", NEW, "--metadata-encoder-old-secret", OLD)
    one, other = serve("one", *both).wait(), serve("other", *both).wait()
    assert register(other, "t").json()["metadata"] == METADATA
    assert [shown(each, "t") for each in (one, other)] == [METADATA] * 2
    assert [shown(each, "s0") for each in (one, other)] == [METADATA] * 2
    (_, second) = records_of(kafka, encoders)
    assert Keyset.loads(second[1] or b"", NEW).keys.items() > Keyset.loads(first, OLD).keys.items()
    one.stop()
    other.stop()
    logged = b"".join(value or b"" for _, value in records_of(kafka, schemas))
    assert b'"__enc__":"true"' in logged
    assert PLAIN.encode() not in logged
    assert not kept_in_clear(tmp_path)


def snapshot(*arguments: str) -> str:
    command = [sys.executable, "-m", "registry", "snapshot", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_a_snapshot_takes_the_keyset_along(tmp_path: Path) -> None:
    data, other, place = tmp_path / "data", tmp_path / "other", tmp_path / "snapshots"
    environment = {"REGISTRAR_METADATA_ENCODER_SECRET": OLD}

    def served(folder: Path) -> Registry:
        return Registry(folder, "--readers", "1", environment=environment).wait()

    with closing(Running(served(data))) as running:
        assert register(running.registry, "s").json()["metadata"] == METADATA
    where = ("--snapshots", str(place))
    snapshot("build", "--engine", "local", *where, "--data", str(data))
    snapshot("verify", *where, "--data", str(data))
    snapshot("restore", *where, "--data", str(other))
    snapshot("export", *where, "--data", str(data), "--output", str(tmp_path / "exported"))
    with closing(Running(served(other))) as running:
        assert shown(running.registry, "s") == METADATA
        assert register(running.registry, "t").json()["metadata"] == METADATA
    assert not kept_in_clear(tmp_path)


def test_a_keyset_is_not_carried_over_another(tmp_path: Path) -> None:
    folder, mine, others = KeysetFile(tmp_path), Keyset.new(), Keyset.new()
    carry(mine.dumps(OLD), folder)
    carry(mine.dumps(OLD), folder)
    before = folder.read()
    with pytest.raises(LogError, match="another keyset"):
        carry(others.dumps(OLD), folder)
    assert folder.read() == before
    folder.write(mine.with_new_primary().dumps(NEW))
    carry(mine.dumps(OLD), folder)
