"""Conversions of Confluent's settings that depend on each other: listeners, addresses, logins, TLS."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from . import java_stores
from .mapping import Convert, Given, Ours, Refused, brokers, is_on, pieces

DEFAULT_LISTENERS = "http://0.0.0.0:8081"
_SCHEMES = ("http", "https")
_ALL = "0.0.0.0"  # noqa: S104 (as Confluent's server does, if its settings say so)


def kafka(value: str, given: Given) -> Ours:
    """Convert the brokers: those of the configured protocol."""
    return {"kafka": brokers(value, protocol(given), "kafkastore.security.protocol")}


def protocol(given: Given) -> str:
    """Return the protocol for connections to the brokers."""
    return given.get("kafkastore.security.protocol", "PLAINTEXT").upper()


def security_protocol(value: str, given: Given) -> Ours:
    """Convert the protocol; Confluent's default mechanism is GSSAPI."""
    found = {"kafka_security_protocol": value}
    if protocol(given).startswith("SASL") and not given.get("kafkastore.sasl.mechanism"):
        found["kafka_sasl_mechanism"] = "GSSAPI"
    return found


def mechanism(value: str, given: Given) -> Ours:
    """Convert the mechanism; Amazon's is used only with its login module."""
    return {"kafka_sasl_mechanism": value} if protocol(given).startswith("SASL") else {}


def with_sasl(ours: str) -> Convert:
    """Return the conversion of a setting that counts only if the connections to Kafka use SASL."""
    return lambda value, given: {ours: value} if protocol(given).startswith("SASL") else {}


def login(value: str, given: Given) -> Ours:
    """Convert the entry for the login, if the connections to Kafka use SASL."""
    return java_stores.login(value) if protocol(given).startswith("SASL") else {}


def with_kafka_tls(convert: Convert) -> Convert:
    """Return a conversion that is done only if the connections to Kafka use TLS."""
    return lambda value, given: convert(value, given) if protocol(given).endswith("SSL") else {}


def with_https(convert: Convert) -> Convert:
    """Return a conversion that is done only if there is an https listener."""
    return lambda value, given: convert(value, given) if _https(given) else {}


def listeners(value: str, given: Given) -> Ours:
    """Convert the listeners; names are replaced by their schemes."""
    found = [url for _, url in _named_listeners(given)]
    return {"listeners": ",".join(found)} if found else {}


def port(value: str, given: Given) -> Ours:
    """Convert the deprecated port, which counts without listeners."""
    return {} if given.get("listeners") else {"listeners": f"http://{_ALL}:{value}"}


def _named_listeners(given: Given) -> list[tuple[str, str]]:
    """Return name and URL of each listener."""
    schemes = {
        name.strip().lower(): scheme.strip().lower()
        for name, _, scheme in (
            each.partition(":") for each in pieces(given.get("listener.protocol.map", ""))
        )
    }
    found = []
    default = f"http://{_ALL}:{given['port']}" if given.get("port") else DEFAULT_LISTENERS
    for each in pieces(given.get("listeners", "")) or [default]:
        name, slashes, address = each.partition("://")
        scheme = schemes.get(name.lower(), name.lower())
        if not slashes or scheme not in _SCHEMES:
            raise Refused(
                f"has {each}, which is neither http nor https: name its scheme in listener.protocol.map",
                "listeners", "listen",
            )  # fmt: skip
        host = _ALL if address.startswith(":") else ""
        found.append((name.lower(), f"{scheme}://{host}{address.rstrip('/')}"))
    return found


def _https(given: Given) -> bool:
    return any(url.startswith("https:") for _, url in _named_listeners(given))


def advertise(value: str, given: Given) -> Ours:
    """Convert the host's name, with scheme and port of the listener for other nodes."""
    scheme = inter_instance_protocol(given)
    named = given.get("inter.instance.listener.name", "").lower()
    urls = _named_listeners(given)
    url = next((url for name, url in urls if name == named), None) or next(
        (url for _, url in urls if url.startswith(f"{scheme}:")), urls[0][1]
    )
    scheme = url.partition(":")[0] if named else scheme
    host = f"[{value}]" if ":" in value and value[0] != "[" else value
    return {"advertise": f"{scheme}://{host}:{given.get('host.port') or _port_of(url)}"}


def inter_instance_protocol(given: Given) -> str:
    """Return the scheme of requests between nodes."""
    old = given.get("schema.registry.inter.instance.protocol")
    return (old or given.get("inter.instance.protocol") or "http").lower()


def _port_of(url: str) -> int:
    try:
        found = urlsplit(url).port
    except ValueError:
        found = None
    if found is None:
        raise Refused(f"needs the port of {url}: write it into listeners", "advertise")
    return found


def peer_tls(value: str, given: Given) -> Ours:
    """Convert https between nodes: by the server's certificate, if that is PEM."""
    if value.lower() != "https":
        return {}
    keystore, truststore = given.get("ssl.keystore.location"), given.get("ssl.truststore.location")
    try:
        found = java_stores.server_keystore(keystore or "", given)
        found |= java_stores.server_truststore(truststore or "", given)
    except Refused:
        found = {}
    if not {"tls_certificate", "tls_client_ca"} <= found.keys() or "tls_key_password" in found:
        raise Refused(
            "asks for TLS between nodes: set peer_tls_certificate, peer_tls_key and peer_tls_ca to PEM files",
            "peer_tls_certificate",
        )
    return {
        "peer_tls_certificate": found["tls_certificate"],
        "peer_tls_key": found["tls_key"],
        "peer_tls_ca": found["tls_client_ca"],
    }


_CLIENT_AUTH = {"none": "", "requested": "wanted", "required": "required"}


def client_authentication(given: Given) -> str:
    """Return ``tls_client_auth``; empty if certificates of clients are not asked for."""
    wanted = given.get("ssl.client.authentication", "").lower()
    if not wanted:
        return "required" if is_on(given.get("ssl.client.auth")) else ""
    if wanted not in _CLIENT_AUTH:
        raise Refused("must be NONE, REQUESTED or REQUIRED", "tls_client_auth")
    return _CLIENT_AUTH[wanted]


def client_auth(value: str, given: Given) -> Ours:
    """Convert if clients need certificates."""
    found = client_authentication(given)
    if found and not _https(given):
        raise Refused(
            "asks for certificates of clients, but no listener has https: add one to listeners",
            "tls_client_auth",
        )
    return {"tls_client_auth": found} if found else {}


def client_ca(value: str, given: Given) -> Ours:
    """Convert the truststore, if clients need certificates."""
    return java_stores.server_truststore(value, given) if client_authentication(given) else {}


def with_client_certificates(ours: str) -> Convert:
    """Return the conversion of a setting about the certificates of clients."""
    return lambda value, given: {ours: value} if client_authentication(given) and _https(given) else {}


def authentication(value: str, given: Given) -> Ours:
    """Refuse to serve without the authentication that was asked for."""
    if value.upper() == "NONE":
        return {}
    if value.upper() == "BEARER":
        raise Refused(
            "asks for bearer tokens: set jwt_jwks, jwt_issuer and jwt_audience", "jwt_jwks", "users", "rules"
        )
    raise Refused(
        "asks for passwords: set users to the file of users that the JAAS file names (file=…)",
        "users", "jwt_jwks", "rules",
    )  # fmt: skip


def roles(value: str, given: Given) -> Ours:
    """Refuse a restriction to roles, unless there are rules."""
    if given.get("authentication.method", "NONE").upper() == "NONE" or pieces(value) == ["*"]:
        return {}
    raise Refused(
        "admits only some roles: write who may do what into a file of rules, and set rules", "rules"
    )


def one_listener(value: str, given: Given) -> Ours:
    """Refuse a setting of one listener."""
    raise Refused(
        "is for one listener: all https listeners have the same certificate; remove listener.name.NAME."
    )


def refused_if_on(reason: str, *instead: str) -> Convert:
    """Return the conversion of a switch that must be off."""

    def convert(value: str, given: Given) -> Ours:
        if is_on(value):
            raise Refused(reason, *instead)
        return {}

    return convert


def refused_classes(is_refused: Callable[[str], bool], reason: str, *instead: str) -> Convert:
    """Return the conversion of a list of Java classes; some of them must not be missing silently."""

    def convert(value: str, given: Given) -> Ours:
        wrong = [each for each in pieces(value) if is_refused(each.lower())]
        if wrong:
            raise Refused(f"names {', '.join(wrong)}, {reason}", *instead)
        return {}

    return convert


def tls_versions(value: str, given: Given) -> Ours:
    """Refuse what is stricter than here: TLS 1.2 and 1.3 are served."""
    if not pieces(value) or "tlsv1.2" in [each.lower() for each in pieces(value)]:
        return {}
    raise Refused("excludes TLS 1.2, which is always served: add TLSv1.2, or remove the setting")


def unless_zero(convert: Convert) -> Convert:
    """Return a conversion that is not done for 0, which stands for no limit."""
    return lambda value, given: {} if value == "0" else convert(value, given)
