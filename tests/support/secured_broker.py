"""A broker with a listener for each way to log in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509

from deploy.local.broker import Broker
from deploy.local.process import free_port
from registry.log.kafka.security import Security
from tests.support.certificates import LOOPBACK, Authority
from tests.support.token_endpoint import AUDIENCE, CLIENT_ID, CLIENT_SECRET, TokenEndpoint

USER, PASSWORD = "registrar", "registrar's password"
SESSION_S = 3.0
_MODULES = "org.apache.kafka.common.security"


class SecuredBroker(Broker):
    """Addresses: ``tls``, ``mutual`` (client certificates), ``users`` (SASL PLAIN), ``tokens`` (OAUTHBEARER).

    It ends sessions of ``users`` after :data:`SESSION_S`. It believes the tokens of ``endpoint`` and
    the certificates of ``authority``.
    """

    def __init__(self, folder: Path, authority: Authority, endpoint: TokenEndpoint) -> None:
        super().__init__(folder)
        self.authority, self.endpoint = authority, endpoint
        self.tls, self.mutual, self.users, self.tokens = (f"127.0.0.1:{free_port()}" for _ in range(4))
        listeners = {
            "PLAINTEXT": self.address,
            "TLS": self.tls,
            "MUTUAL": self.mutual,
            "USERS": self.users,
            "TOKENS": self.tokens,
        }
        jwks = endpoint.jwks.as_uri()
        self.command.insert(1, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ca = authority.write(folder, "ca")
        server, both = authority.issue(names=[x509.IPAddress(LOOPBACK)]), folder / "broker.pem"
        both.write_bytes(server.key_pem() + server.pem)
        stores = {}
        for name in ("tls", "mutual"):
            stores |= {
                f"listener.name.{name}.ssl.keystore.type": "PEM",
                f"listener.name.{name}.ssl.keystore.location": str(both),
                f"listener.name.{name}.ssl.truststore.type": "PEM",
                f"listener.name.{name}.ssl.truststore.location": str(self.ca),
            }
        self.settings = {
            "listeners": ",".join(
                [f"{name}://{at}" for name, at in listeners.items()]
                + [f"CONTROLLER://127.0.0.1:{self.controller_port}"]
            ),
            "advertised.listeners": ",".join(f"{name}://{at}" for name, at in listeners.items()),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,USERS:SASL_PLAINTEXT,TOKENS:SASL_PLAINTEXT,"
                "CONTROLLER:PLAINTEXT"
            ),
            **stores,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            "listener.name.users.plain.connections.max.reauth.ms": str(round(SESSION_S * 1000)),
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.tokens.oauthbearer.sasl.jaas.config": (
                f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required ;"
            ),
            "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": (
                f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            # By default a validator is used that checks no signature.
            "sasl.oauthbearer.jwt.validator.class": f"{_MODULES}.oauthbearer.BrokerJwtValidator",
            "sasl.oauthbearer.jwks.endpoint.url": jwks,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": "0",
        }

    def for_tls(self, **others: Any) -> Security:
        """The login at ``tls``."""
        return Security(**{"security_protocol": "SSL", "ssl_ca_location": str(self.ca)} | others)

    def for_users(self, **others: Any) -> Security:
        """The login at ``users``."""
        given = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": USER,
            "sasl_password": PASSWORD,
        }
        return Security(**given | others)

    def for_tokens(self, **others: Any) -> Security:
        """The login at ``tokens``."""
        given = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": self.endpoint.url,
            "sasl_oauthbearer_client_id": CLIENT_ID,
            "sasl_oauthbearer_client_secret": CLIENT_SECRET,
        }
        return Security(**given | others)
