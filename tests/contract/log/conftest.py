"""Brokers with settings that other tests do not use."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.broker import COMPACTS_SOON, Broker
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.contract.log.lost_answers import LosingProxy
from tests.support.running import free_port

LIMITED_USER, PASSWORD = "alice", "alice's"
# Seconds after which the forgetful broker forgets producers and transactional ids.
FORGETS_S = 2.0


class OddBroker(Broker):
    """A broker whose ``proxy`` can lose messages; ``secure`` is a listener with TLS and passwords.

    It obeys ACLs where there are any, and compacts at once what may be compacted.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, proxies=1)
        self.certificate, self.key = folder / "certificate.pem", folder / "key.pem"
        self.secure = f"127.0.0.1:{free_port()}"
        self.proxy = LosingProxy(f"127.0.0.1:{self._proxied[0]}", self.proxies[0].port)
        self.proxies = [self.proxy]
        listeners = {
            "PLAINTEXT": (self.address, self.address),
            "PROXY0": (f"127.0.0.1:{self._proxied[0]}", self.proxy.address),
            "SECURE": (self.secure, self.secure),
        }
        store = "listener.name.secure.ssl"
        authorizer, controller = (
            ("kafka.security.authorizer.AclAuthorizer", [])
            if self.zookeeper
            else (
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                [f"CONTROLLER://127.0.0.1:{self.controller_port}"],
            )
        )
        self.settings = {
            **COMPACTS_SOON,
            "listeners": ",".join([f"{name}://{at}" for name, (at, _) in listeners.items()] + controller),
            "advertised.listeners": ",".join(f"{name}://{at}" for name, (_, at) in listeners.items()),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,PROXY0:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            # Brokers before 3.0 take no PEM key without a password.
            f"{store}.keystore.type": "PKCS12",
            f"{store}.keystore.location": str(folder / "both.p12"),
            f"{store}.keystore.password": PASSWORD,
            f"{store}.truststore.type": "PEM",
            f"{store}.truststore.location": str(self.certificate),
            f"{store}.client.auth": "required",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'user_{LIMITED_USER}="{PASSWORD}";'
            ),
            "authorizer.class.name": authorizer,
            "allow.everyone.if.no.acl.found": "true",
        }

    def start(self) -> OddBroker:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.key.exists():
            made = [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
                *("-nodes", "-days", "2", "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", str(self.key), "-out", str(self.certificate)),
            ]
            subprocess.run(made, check=True, capture_output=True)
            both = [
                *("openssl", "pkcs12", "-export", "-inkey", str(self.key), "-in", str(self.certificate)),
                *("-passout", f"pass:{PASSWORD}", "-out", str(self.folder / "both.p12")),
            ]
            subprocess.run(both, check=True, capture_output=True)
        super().start()
        return self

    def security(self, **others: Any) -> Security:
        """Return the settings of a client of ``secure``."""
        given = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": LIMITED_USER,
            "sasl_password": PASSWORD,
            "ssl_ca_location": str(self.certificate),
            "ssl_certificate_location": str(self.certificate),
            "ssl_key_location": str(self.key),
        }
        return Security(**(given | others))


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddBroker]:
    broker = OddBroker(tmp_path_factory.mktemp("odd"))
    with broker:
        yield broker


@pytest.fixture(scope="session")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start a broker that soon forgets unused producers and transactional ids."""
    settings = {
        "producer.id.expiration.ms": str(round(FORGETS_S * 1000)),
        "producer.id.expiration.check.interval.ms": "100",
        "transactional.id.expiration.ms": str(round(FORGETS_S * 1000)),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    }
    with Broker(tmp_path_factory.mktemp("forgetful"), settings=settings) as broker:
        yield broker


Opened = Callable[..., KafkaLog]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return a function that opens logs in Kafka; they are closed at the end of the test."""
    logs: list[KafkaLog] = []

    def open_one(servers: str, topic: str, security: Security | None = None, **settings: Any) -> KafkaLog:
        given = {"transactional_id": f"registrar.{topic}", "append_timeout_s": 30.0} | settings
        logs.append(KafkaLog(security or Security(), servers, topic, **given))
        return logs[-1]

    yield open_one
    for log in logs:
        log.close()
