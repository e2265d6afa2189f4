"""Settings of Confluent's Schema Registry (``schema-registry.properties``), and their counterparts."""

from __future__ import annotations

from . import confluent_conversions as how
from . import java_stores
from .mapping import Registry, conversion, milliseconds, part_of, same, without, word

_JVM = "there is no Java virtual machine"
_JETTY = "belongs to Jetty, which Registrar does not use"
_JAVA_TLS = "TLS is OpenSSL's; its defaults are safe"
_CHOSEN_HERE = "chosen by Registrar itself"
_LIMITS = "lists are paged as a client asks, and have Confluent's default limits"
_ZOOKEEPER = "Confluent 7 and newer ignore it too; see `election` and `zookeeper`"
_ENTERPRISE = "belongs to Confluent's commercial plug-ins"
_MAP_LEVEL = {
    "trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "error": "error", "fatal": "error",
    "off": "error",
}  # fmt: skip


def _protects(name: str) -> bool:
    return "security" in name or "auth" in name


_WHERE = (
    conversion(
        "listeners", "listeners", "names get their scheme from `listener.protocol.map`", how.listeners
    ),
    part_of("listener.protocol.map", "listeners", "listeners"),
    conversion("port", "listeners", "`http://0.0.0.0:PORT`, if there are no listeners", how.port),
    conversion("host.name", "advertise", "with scheme and port of the listener for nodes", how.advertise),
    part_of("host.port", "host.name", "advertise"),
    part_of("inter.instance.listener.name", "host.name", "advertise"),
    *(
        conversion(
            name, ("advertise", "peer_tls_certificate", "peer_tls_key", "peer_tls_ca"),
            "`https`: the server's certificate, if it is PEM; otherwise refused until `peer_tls_certificate` "
            "is set", how.peer_tls,
        )
        for name in ("inter.instance.protocol", "schema.registry.inter.instance.protocol")
    ),
    conversion(
        "schema.registry.group.id", ("group", "cluster_id"), "both",
        lambda value, _: {"group": value, "cluster_id": value},
    ),
)  # fmt: skip
_LOG = (
    conversion(
        "kafkastore.bootstrap.servers", "kafka", "the brokers of `kafkastore.security.protocol`", how.kafka
    ),
    same("kafkastore.topic", "topic"),
    same("kafkastore.topic.replication.factor", "replication_factor"),
    same("kafkastore.client.id", "kafka_client_id"),
    conversion("kafkastore.security.protocol", ("kafka_security_protocol", "kafka_sasl_mechanism"),
              "the same; with SASL the default mechanism is GSSAPI", how.security_protocol),
    conversion("kafkastore.sasl.mechanism", "kafka_sasl_mechanism", "the same", how.mechanism),
    conversion(
        "kafkastore.sasl.jaas.config",
        ("kafka_sasl_username", "kafka_sasl_password", "kafka_sasl_oauthbearer_client_id",
         "kafka_sasl_oauthbearer_client_secret", "kafka_sasl_oauthbearer_scope",
         "kafka_sasl_oauthbearer_extensions", "kafka_sasl_kerberos_service_name"),
        "the options of the login module; a keytab is refused", how.login,
    ),
    *(
        conversion(f"kafkastore.sasl.{name}", ours, "the same", how.with_sasl(ours))
        for name, ours in (
            ("kerberos.service.name", "kafka_sasl_kerberos_service_name"),
            ("oauthbearer.token.endpoint.url", "kafka_sasl_oauthbearer_token_endpoint_url"),
        )
    ),
    conversion(
        "kafkastore.ssl.truststore.location", "kafka_ssl_ca_location", "PEM; JKS and PKCS12 are refused",
        how.with_kafka_tls(java_stores.kafka_truststore),
    ),
    part_of("kafkastore.ssl.truststore.type", "kafkastore.ssl.truststore.location"),
    part_of("kafkastore.ssl.truststore.password", "kafkastore.ssl.truststore.location"),
    conversion(
        "kafkastore.ssl.keystore.location",
        ("kafka_ssl_certificate_location", "kafka_ssl_key_location", "kafka_ssl_key_password"),
        "PEM; JKS and PKCS12 are refused", how.with_kafka_tls(java_stores.kafka_keystore),
    ),
    part_of("kafkastore.ssl.keystore.type", "kafkastore.ssl.keystore.location"),
    part_of("kafkastore.ssl.keystore.password", "kafkastore.ssl.keystore.location"),
    part_of("kafkastore.ssl.key.password", "kafkastore.ssl.keystore.location"),
    conversion(
        "kafkastore.ssl.endpoint.identification.algorithm", "kafka_ssl_endpoint_identification_algorithm",
        "the same; without it the name is checked here",
        how.with_kafka_tls(lambda value, _: {"kafka_ssl_endpoint_identification_algorithm": value}),
    ),
    conversion(
        "kafkagroup.session.timeout.ms", "session_timeout_s", "in seconds", milliseconds("session_timeout_s")
    ),
)  # fmt: skip
_PRIMARY = tuple(same(name, "eligible") for name in ("leader.eligibility", "master.eligibility"))
_SCHEMAS = (
    *(same(name, "compatibility") for name in ("schema.compatibility.level", "avro.compatibility.level")),
    same("mode.mutability", "mode_mutability"),
    same("schema.validate.fields", "validate_fields"),
    same("schema.validate.new.schemas", "validate_new_schemas"),
    same("schema.reject.empty.subject", "reject_empty_subject"),
    same("schema.providers.reference.versions.strict", "strict_references"),
    same("metadata.encoder.secret", "metadata_encoder_secret"),
    same("metadata.encoder.old.secret", "metadata_encoder_old_secret"),
    same("metadata.encoder.topic", "metadata_encoder_topic"),
)
_PUBLIC_PORT = (
    conversion(
        "ssl.keystore.location",
        ("tls_keystore", "tls_keystore_password", "tls_certificate", "tls_key", "tls_key_password"),
        "PKCS12 or PEM; JKS is refused", how.with_https(java_stores.server_keystore),
    ),
    part_of("ssl.keystore.type", "ssl.keystore.location"),
    part_of("ssl.keystore.password", "ssl.keystore.location"),
    part_of("ssl.key.password", "ssl.keystore.location"),
    conversion(
        "ssl.truststore.location", "tls_client_ca",
        "PEM, if certificates of clients are asked for; JKS and PKCS12 are refused",
        how.with_https(how.client_ca),
    ),
    part_of("ssl.truststore.type", "ssl.truststore.location"),
    part_of("ssl.truststore.password", "ssl.truststore.location"),
    *(
        conversion(name, "tls_client_auth", "REQUESTED is `wanted`", how.client_auth)
        for name in ("ssl.client.authentication", "ssl.client.auth")
    ),
    conversion("ssl.enabled.protocols", (), "TLS 1.2 and 1.3 are served; a list without TLSv1.2 is refused",
              how.tls_versions),
    conversion(
        "confluent.schema.registry.auth.ssl.principal.mapping.rules", "tls_principal_rules", "the same",
        how.with_client_certificates("tls_principal_rules"),
    ),
    conversion("authentication.method", (), "BASIC is refused until `users` is set, BEARER until `jwt_jwks` "
              "is", how.authentication),
    conversion("authentication.roles", (), "other than `*` is refused until `rules` is set", how.roles),
    without("authentication.realm", "`users` names the file itself"),
    without("authentication.skip.paths", "only `open_paths` are open; everything else is authenticated"),
    same("access.control.allow.origin", "cors_origins"),
    same(
        "response.http.headers.config", "response_http_headers_config",
        "the same; a header that Registrar sends anyway is replaced and not sent twice, and those of the "
        "connection (`Date`, `Content-Length`) stay",
    ),
    same("size.limit.filter.enabled", "size_limit_filter_enabled"),
    same("size.limit.filter.max.request.body.size", "size_limit_filter_max_request_body_size"),
    conversion("idle.timeout.ms", "idle_timeout_s", "in seconds", milliseconds("idle_timeout_s")),
    conversion("request.timeout.ms", "request_timeout_s", "in seconds; 0 is the default",
              how.unless_zero(milliseconds("request_timeout_s"))),
    conversion("enable.fips", (), "`true` is refused",
              how.refused_if_on("asks for FIPS mode: use a Python and OpenSSL in FIPS mode, and remove it")),
    conversion("proxy.protocol.enabled", (), "`true` is refused",
              how.refused_if_on("is not understood: have the proxy speak HTTP and set X-Forwarded-For, name "
                                "it in trusted_proxies, and remove it", "trusted_proxies")),
    conversion("listener.name.*", (), "refused: write the name without it", how.one_listener),
    *(
        conversion(name, (), "classes for security are refused, others have no counterpart",
                  how.refused_classes(_protects, "which protects the registry and does not exist here: set "
                                      "users, jwt_jwks or tls_client_auth, and rules; then this is ignored",
                                      "rules"))
        for name in ("resource.extension.class", "schema.registry.resource.extension.class",
                     "init.resource.extension.class", "resource.extension.classes",
                     "rest.servlet.initializor.classes", "websocket.servlet.initializor.classes")
    ),
)  # fmt: skip
_WITHOUT = (
    *(
        without(name, "chosen by Registrar itself; see `session_timeout_s`")
        for name in ("kafkagroup.rebalance.timeout.ms", "kafkagroup.heartbeat.interval.ms")
    ),
    without("leader.election.delay", "health checks are answered before a primary is elected"),
    without("leader.election.sticky", "a primary stays primary while it is a member of the group"),
    *(
        without(f"leader.{name}.timeout.ms", "a forwarded write has the time of its request, "
                "`request_timeout_s`")
        for name in ("connect", "read")
    ),
    without("inter.instance.headers.whitelist", "nodes forward the command instead of the request"),
    without("kafkastore.group.id", "the log is read without a consumer group"),
    *(
        without(f"kafkastore.{name}", "Registrar waits for Kafka and retries; see `request_timeout_s`")
        for name in ("timeout.ms", "init.timeout.ms", "init.wait.for.reader", "write.max.retries",
                     "write.retries", "write.retry.backoff.ms")
    ),
    without("kafkastore.topic.skip.validation", "the topic is always checked"),
    without("kafkastore.topic.config.*", "change the topic's configuration in Kafka"),
    without("kafkastore.checkpoint.*", "the store in `data` holds its own position"),
    without("kafkastore.update.handlers", "Java classes cannot be loaded"),
    *(without(name, _ZOOKEEPER) for name in ("kafkastore.connection.url", "kafkastore.zk.session.timeout.ms",
                                             "schema.registry.zk.namespace", "zookeeper.set.acl")),
    without("kafkastore.max.request.size", "the topic's `max.message.bytes` decides"),
    without("kafkastore.sasl.kerberos.*", "Kerberos' library renews tickets"),
    without("kafkastore.sasl.login.*", "logins are renewed by Registrar"),
    without("kafkastore.sasl.client.callback.handler.class", "the mechanism says it"),
    *(without(f"kafkastore.ssl.{name}", _JAVA_TLS) for name in (
        "trustmanager.algorithm", "keymanager.algorithm", "enabled.protocols", "protocol", "provider",
        "cipher.suites",
    )),
    *(without(f"ssl.{name}", _JAVA_TLS) for name in (
        "trustmanager.algorithm", "keymanager.algorithm", "protocol", "provider", "cipher.suites",
    )),
    without("ssl.endpoint.identification.algorithm", "nodes check each other by `peer_tls_ca`"),
    without("ssl.keystore.reload", "files are always read again when they change"),
    without("ssl.keystore.watch.location", "files are always read again when they change"),
    without("access.control.allow.methods", "`cors_origins` permits the API's methods"),
    without("access.control.allow.headers", "`cors_origins` permits the API's headers"),
    without("access.control.expose.headers", "`cors_origins` shows the API's headers"),
    without("access.control.skip.options", "preflight requests need no authentication"),
    without("reject.options.request", "preflight requests are refused unless `cors_origins` is set"),
    without("nosniff.prevention.enable", "every answer has `X-Content-Type-Options: nosniff`"),
    without("hsts.header.enable", "write the header into `response_http_headers_config`"),
    without("csrf.prevention.*", "requests with credentials of a browser need `cors_origins`"),
    *(without(name, "limit rates at the load balancer, or by `policies`") for name in (
        "dos.filter.*", "network.traffic.rate.limit.*")),
    *(without(name, "`connections_max` counts for each process") for name in (
        "server.connection.limit", "connector.connection.limit")),
    *(without(name, _JETTY) for name in (
        "thread.pool.min", "thread.pool.max", "request.queue.capacity*", "max.request.header.size",
        "max.response.header.size", "websocket.path.prefix", "shutdown.graceful.ms",
        "jetty.legacy.uri.compliance", "http2.enabled",
        "network.forwarded.request.customizer.enable", "percentile.max.latency.ms",
        "return.429.instead.of.500.for.jetty.response.errors", "disable.response.size.metrics.collection",
    )),
    without("request.timeout.interrupt.enable", "no thread waits for a request; see `request_timeout_s`"),
    *(without(name, "`allowed_hosts` checks the Host header") for name in (
        "sni.*", "prefix.sni.*", "expected.sni.headers", "reject.invalid.sni.headers")),
    without("proxy.protocol.accepted.ip.range", "the PROXY protocol is not understood"),
    *(without(name, _JAVA_TLS) for name in ("ssl.spire.enabled", "ssl.spire.trust.only.enabled")),
    without("compression.enable", "answers are compressed for clients that accept gzip"),
    without("debug", "`log_level = debug` says more; answers never hold stack traces"),
    without("suppress.stack.trace.response", "answers never hold stack traces"),
    without("request.logger.name", "`access_log` logs requests"),
    *(without(name, "media types are chosen by the request's Accept header") for name in (
        "response.mediatype.preferred", "response.mediatype.default")),
    *(without(name, "`/metrics` serves metrics for Prometheus") for name in (
        "metrics.*", "metric.reporters*")),
    without("associations.enable", "associations are always served"),
    without("enable.fips.mode", "used only with `enable.fips`"),
    without("enable.store.health.check", "`/health/ready` always checks the store"),
    without("metadata.encoder.secret.strict.validation", "any secret is accepted"),
    *(without(name, _CHOSEN_HERE) for name in ("schema.cache.size", "schema.cache.expiry.secs")),
    without("schema.canonicalize.on.consume", "texts are served as they are stored"),
    *(without(name, _LIMITS) for name in (
        "schema.search.*", "subject.search.*", "subject.version.search.*", "context.search.*")),
    without("schema.providers.json.fetch.remote.schemas", "URLs in schemas are never fetched; those "
            "of the drafts' meta-schemas are known"),
    without("schema.providers*", "Avro, JSON Schema and Protobuf are built in"),
    without("resource.static.locations", "no files are served"),
    without("confluent.*", _ENTERPRISE),
    without("public.key.path", "`jwt_jwks` names the keys of tokens"),
)  # fmt: skip
# Variables of the image that are no settings of the server.
_IMAGE = (
    conversion("log4j.root.loglevel", "log_level", "`WARN` is `warning`, `TRACE` is `debug`",
              word("log_level", _MAP_LEVEL)),
    without("log4j.loggers", "`log_level` is for all"),
    *(without(name, _JVM) for name in (
        "heap.opts", "opts", "jmx.*", "jvm.performance.opts", "log4j.opts", "gc.log.opts", "classpath")),
    without("cub.*", "Registrar waits for Kafka by itself"),
)  # fmt: skip

CONFLUENT = Registry(
    "Confluent's Schema Registry",
    "SCHEMA_REGISTRY_",
    (*_WHERE, *_LOG, *_PRIMARY, *_SCHEMAS, *_PUBLIC_PORT, *_WITHOUT, *_IMAGE),
    brokers="kafkastore.bootstrap.servers",
    separator=".",
    # Clients and other tools read these.
    clients=frozenset({"url", "basic.auth.user.info", "basic.auth.credentials.source", "username", "password",
                       "api.key", "api.secret"}),
)  # fmt: skip
