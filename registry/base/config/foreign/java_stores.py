"""Java's keystores and truststores, and JAAS entries, as settings of a Kafka client or server here."""

from __future__ import annotations

import re
from pathlib import Path

from .mapping import Given, Ours, Refused

# The first bytes of Java's own formats, JKS and JCEKS. Java opens PKCS12 files whatever type is set.
_JAVA_ONLY = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_LOGIN = re.compile(r"\s*(?P<module>[\w.$]+)\s+\w+(?P<options>.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""", re.DOTALL)
_KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
_IAM = "software.amazon.msk.auth.iam.IAMLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_PASSWORDS = {
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def server_keystore(value: str, given: Given) -> Ours:
    """Convert ``ssl.keystore.*``: PKCS12 or PEM as they are; the old Java formats must be converted."""
    kind, password = _kind(value, given.get("ssl.keystore.type", "")), given.get("ssl.keystore.password", "")
    key_password = given.get("ssl.key.password", "")
    if kind == "PEM":
        return _known_stores(tls_certificate=value, tls_key=value, tls_key_password=key_password or password)
    if kind != "PKCS12":
        raise Refused(
            "is a Java keystore (JKS): convert it with keytool -importkeystore -deststoretype pkcs12 "
            "-srckeystore OLD -destkeystore NEW, and set tls_keystore to the new file",
            "tls_keystore", "tls_certificate",
        )  # fmt: skip
    if key_password and key_password != password:
        raise Refused(
            "has a key with a password of its own (ssl.key.password), which PKCS12 has not: convert it with "
            "keytool -importkeystore -deststoretype pkcs12, and set tls_keystore to the new file",
            "tls_keystore", "tls_certificate",
        )  # fmt: skip
    return _known_stores(tls_keystore=value, tls_keystore_password=password)


def server_truststore(value: str, given: Given) -> Ours:
    """Convert ``ssl.truststore.*`` for the certificates of clients: PEM only."""
    _refuse_binary(value, given.get("ssl.truststore.type", ""), "tls_client_ca")
    return {"tls_client_ca": value}


def kafka_keystore(value: str, given: Given) -> Ours:
    """Convert ``kafkastore.ssl.keystore.*``: PEM only."""
    if _kind(value, given.get("kafkastore.ssl.keystore.type", "")) != "PEM":
        raise Refused(
            "is a Java or PKCS12 keystore; PEM is needed: convert it to PKCS12 with keytool "
            "-importkeystore -deststoretype pkcs12, then openssl pkcs12 -in FILE.p12 -nodes -out client.pem, "
            "and set kafka_ssl_certificate_location and kafka_ssl_key_location to client.pem",
            "kafka_ssl_certificate_location",
        )
    password = given.get("kafkastore.ssl.key.password") or given.get("kafkastore.ssl.keystore.password", "")
    return _known_stores(
        kafka_ssl_certificate_location=value, kafka_ssl_key_location=value, kafka_ssl_key_password=password
    )


def kafka_truststore(value: str, given: Given) -> Ours:
    """Convert ``kafkastore.ssl.truststore.*``: PEM only."""
    _refuse_binary(value, given.get("kafkastore.ssl.truststore.type", ""), "kafka_ssl_ca_location")
    return {"kafka_ssl_ca_location": value}


def _refuse_binary(file: str, kind: str, ours: str) -> None:
    if _kind(file, kind) != "PEM":
        raise Refused(
            "is a Java or PKCS12 truststore; PEM is needed: export each CA with keytool -exportcert -rfc "
            f"-keystore OLD -alias NAME, join them in one file, and set {ours} to it",
            ours,
        )


def _kind(file: str, stated: str) -> str:
    """Return PEM, PKCS12 or JKS: as the file begins, or as ``stated`` if it cannot be read."""
    try:
        with Path(file).open("rb") as opened:
            start = opened.read(4)
    except OSError:
        return stated.upper() or "JKS"
    if start in _JAVA_ONLY:
        return "JKS"
    return "PKCS12" if start[:1] == b"\x30" and stated.upper() != "PEM" else "PEM"


def _known_stores(**ours: str) -> Ours:
    return {name: value for name, value in ours.items() if value}


def login(value: str) -> Ours:
    """Convert ``sasl.jaas.config``, an entry ``MODULE required NAME="VALUE" …;``."""
    entry = _LOGIN.fullmatch(value)
    if entry is None:
        raise Refused('is not a JAAS entry, MODULE required NAME="VALUE" …;', "kafka_sasl_username")
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _OPTION.findall(entry["options"])
    }
    module = entry["module"]
    if module in _PASSWORDS:
        return _known_stores(
            kafka_sasl_username=options.get("username", ""), kafka_sasl_password=options.get("password", "")
        )
    if module == _OAUTH:
        return _oauth(options)
    if module == _IAM:
        return {}
    if module == _KRB5:
        if "keyTab" in options:
            raise Refused(
                "names a keytab, which Kerberos' library takes from its environment here: set "
                "KRB5_CLIENT_KTNAME to it, and kafka_sasl_kerberos_service_name to the brokers' service",
                "kafka_sasl_kerberos_service_name",
            )
        return _known_stores(kafka_sasl_kerberos_service_name=options.get("serviceName", ""))
    raise Refused(
        f"has the login module {module}, which is unknown here: set kafka_sasl_mechanism and its settings",
        "kafka_sasl_username", "kafka_sasl_oauthbearer_client_id", "kafka_sasl_kerberos_service_name",
    )  # fmt: skip


def _oauth(options: dict[str, str]) -> Ours:
    extensions = {
        name.removeprefix("extension_"): text
        for name, text in options.items()
        if name.startswith("extension_")
    }
    return _known_stores(
        kafka_sasl_oauthbearer_client_id=options.get("clientId", ""),
        kafka_sasl_oauthbearer_client_secret=options.get("clientSecret", ""),
        kafka_sasl_oauthbearer_scope=options.get("scope", ""),
        kafka_sasl_oauthbearer_extensions=",".join(f"{name}={text}" for name, text in extensions.items()),
    )
