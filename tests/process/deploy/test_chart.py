"""The Helm chart: what it renders is valid, keeps to good practice, and runs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import kubernetes_validate
import pytest
import yaml

from deploy.local.broker import Broker
from registry import VERSION
from registry.api.permissions import ADMINS
from registry.api.routes import operations
from registry.base.config.loading import table
from registry.ui.console import ROUTE
from tests.support.certificates import Authority
from tests.support.helm import CHART, NAMESPACE, RELEASE, Rendered, render
from tests.support.pods import Pod
from tests.support.running import ROOT, free_port, until

Json = dict[str, Any]

BROKERS = "kafka-1:9092,kafka-2:9092"
PLACE = "s3://bucket/registrar"
KAFKA = {"kafka": {"brokers": BROKERS}}
DIGEST, SPARK_DIGEST = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
SECRETS: Json = {
    "kafka": {
        "brokers": BROKERS,
        "securityProtocol": "SASL_SSL",
        "tls": {"existingSecret": "kafka-ca"},
        "sasl": {"existingSecret": "kafka-login", "key": "pass"},
    },
    "settings": {"kafka_sasl_mechanism": "SCRAM-SHA-512", "kafka_sasl_username": "registrar"},
    "peer": {"existingSecret": "peers", "key": "shared"},
    "tls": {"existingSecret": "https", "clientAuth": "wanted"},
    "users": {"existingSecret": "people", "key": "passwords"},
    "rules": {"existingSecret": "people"},
    "policies": {"existingSecret": "people"},
    "encoder": {"existingSecret": "encoder", "oldKey": "former"},
}
CONTENTS: Json = {
    **KAFKA,
    "peer": {"secret": "0123456789abcdef"},
    "tls": {"certificate": "a certificate", "key": "a key"},
    "users": {"content": "ada:hash"},
    "rules": {"content": "# none"},
    "policies": {"content": "# none"},
    "encoder": {"secret": "fedcba9876543210", "oldSecret": "0123456789012345"},
}
OPTIONS: Json = {
    **KAFKA,
    "replicas": 5,
    "snapshots": {
        "location": "/snapshots",
        "existingClaim": "shared",
        "engine": "local",
        "full": True,
        "nodesBuildAfter": "",
    },
    "settings": {"topic": "schemas", "compatibility": "FULL", "idle_timeout_s": 60, "cache_max_age_s": 5},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "front"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "traces": {"endpoint": "http://collector:4318", "ratio": "0.1"},
    "persistence": {"storageClass": "-", "size": "50Gi", "annotations": {"a": "b"}},
    "networkPolicy": {
        "clients": [{"namespaceSelector": {}}],
        "prometheus": {"namespaceLabels": {"monitoring": "yes"}},
    },
    "serviceAccount": {"annotations": {"role": "arn"}},
    "imagePullSecrets": [{"name": "pull"}],
    "podSecurityContext": {"runAsUser": 2000, "fsGroup": None},
    "securityContext": {"runAsGroup": 3000},
    "podLabels": {"team": "data"},
    "podAnnotations": {"note": "x"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "high",
    "extraEnv": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "extraEnvFrom": [{"secretRef": {"name": "aws"}}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
}
CASES: dict[str, Json] = {
    "alone": {},
    "kafka": {**KAFKA, "snapshots": {"location": PLACE}},
    "secrets": SECRETS,
    "contents": CONTENTS,
    "peer certificates": {**KAFKA, "peer": {"tls": {"existingSecret": "nodes"}}},
    "certificates required": {**CONTENTS, "tls": {"existingSecret": "https", "clientAuth": "required"}},
    "options": OPTIONS,
    "without volumes": {**KAFKA, "persistence": {"enabled": False}},
    "open ingress": {"ingress": {"enabled": True, "administration": True}},
    "ingress by pattern": {
        "ingress": {"enabled": True, "administration": True, "path": "/registry(/|$)(.*)"},
    },
    "secrets and snapshots": {
        **SECRETS,
        "snapshots": {"location": PLACE},
        "settings": {**SECRETS["settings"], "store_map_bytes": 2**30, "audit_log": "/data/audit.log"},
    },
    "spark on kubernetes": {
        **KAFKA,
        "snapshots": {
            "location": PLACE,
            "spark": {
                "master": "k8s://https://kubernetes.default.svc",
                "executorImage": "executors:1",
                "conf": {"spark.executor.cores": 2},
            },
        },
    },
    "digests": {
        **KAFKA,
        "image": {"digest": DIGEST},
        "snapshots": {"location": PLACE, "imageDigest": SPARK_DIGEST},
    },
    "openshift": {**KAFKA, "openshift": True, "snapshots": {"location": PLACE}},
    "spark standalone": {
        **KAFKA, "snapshots": {"location": PLACE, "spark": {"master": "spark://spark:7077"}},
    },
}  # fmt: skip
REFUSED: dict[str, tuple[Json, str]] = {
    "unknown value": ({"replica": 3}, "replica"),
    "unknown value within": ({"kafka": {"servers": "x:1"}}, "servers"),
    "collector without a scheme": ({"traces": {"endpoint": "collector:4318"}}, "endpoint"),
    "brokers without a port": ({"kafka": {"brokers": "kafka-1"}}, "brokers"),
    "paths after a regular expression": (
        {"ingress": {"enabled": True, "path": "/registry(/|$)(.*)"}},
        "administration",
    ),
    "secret among the settings": ({"settings": {"peer_secret": "0123456789abcdef"}}, "peer_secret"),
    "key among the settings": ({"settings": {"snapshots_key": "0123456789abcdef"}}, "snapshots_key"),
    "unknown setting": ({"settings": {"compatability": "FULL"}}, "compatability"),
    "short peer secret": ({"peer": {"secret": "short"}}, "secret"),
    "no image for executors": (
        {
            **KAFKA,
            "snapshots": {"location": PLACE, "spark": {"master": "k8s://https://kubernetes.default.svc"}},
        },
        "executorImage",
    ),
    "digest of one image only": (
        {**KAFKA, "snapshots": {"location": PLACE}, "image": {"digest": DIGEST}},
        "snapshots.imageDigest",
    ),
    "digest of another kind": ({"image": {"digest": "latest"}}, "digest"),
    "no volume for the log": ({"persistence": {"enabled": False}}, "persistence.enabled"),
    "probes that need a password": ({"settings": {"open_paths": False}}, "open_paths"),
}
OLDEST, NEWEST = "1.25", "1.35"
# Kubernetes has no schemas for these, which belong to the Prometheus operator.
OPERATOR = {"ServiceMonitor", "PrometheusRule"}


@pytest.fixture(scope="module")
def rendered() -> dict[str, Rendered]:
    return dict(zip(CASES, render(list(CASES.values())), strict=True))


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, rendered: dict[str, Rendered]) -> Rendered:
    found = rendered[request.param]
    assert not found.error
    return found


def workloads(case: Rendered) -> list[Json]:
    """Return the specs of all pods."""
    nodes = [each["spec"]["template"] for each in case.kind("StatefulSet")]
    builders = [each["spec"]["jobTemplate"]["spec"]["template"] for each in case.kind("CronJob")]
    return [template["spec"] for template in nodes + builders]


def settings_file(case: Rendered, name: str = "registrar") -> Json:
    return tomllib.loads(case.one("ConfigMap")["data"][f"{name}.toml"])


def image_environment() -> dict[str, str]:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    return dict(re.findall(r"^(?:ENV)? +(REGISTRAR_\w+)=(\S+)", text, re.MULTILINE))


def test_helm_finds_no_fault(case: Rendered) -> None:
    information = 1
    assert [each for each in case.findings if each["severity"] > information] == []


def valid(objects: list[Json], version: str) -> bool:
    """Return true if a version of Kubernetes accepts the objects; raise what is wrong with them."""
    for each in objects:
        if each["kind"] not in OPERATOR:
            kubernetes_validate.validate(each, version, strict=True)
    return True


def test_kubernetes_accepts_the_objects(case: Rendered) -> None:
    assert valid(case.objects, NEWEST)


@pytest.mark.parametrize("name", ["options", "spark on kubernetes"])
def test_the_oldest_kubernetes_accepts_the_objects_too(name: str, rendered: dict[str, Rendered]) -> None:
    assert valid(rendered[name].objects, OLDEST)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"


def test_names_are_unique(case: Rendered) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in case.objects]
    assert len(set(names)) == len(names)


def test_the_settings_are_settings(case: Rendered) -> None:
    known = {setting.name: setting for setting in table()}
    for name, value in settings_file(case).items():
        known[name].kind.read(value)


def test_the_pods_are_confined(case: Rendered) -> None:
    for pod in workloads(case):
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            mounted = {each["name"] for each in container["volumeMounts"]} - {"data"}
            assert mounted == {each["name"] for each in pod["volumes"]} - {"data"}


def test_users_and_groups_are_left_to_openshift(rendered: dict[str, Rendered]) -> None:
    """Its restricted SCC refuses a user or group from outside the range of the namespace."""
    chosen = {"runAsUser", "runAsGroup", "fsGroup"}
    for name, wanted in (("kafka", chosen), ("openshift", set())):
        for pod in workloads(rendered[name]):
            assert set(pod["securityContext"]) & chosen == wanted
            assert not set(pod["containers"][0]["securityContext"]) & chosen


def test_the_security_of_pods_and_containers_is_open(rendered: dict[str, Rendered]) -> None:
    for pod in workloads(rendered["options"]):
        assert pod["securityContext"]["runAsUser"] == 2000
        assert "fsGroup" not in pod["securityContext"]
        assert pod["containers"][0]["securityContext"]["runAsGroup"] == 3000


def test_pods_request_room_for_their_files(rendered: dict[str, Rendered]) -> None:
    """Otherwise Kubernetes places them where there is none, and evicts them first."""
    for pod in workloads(rendered["kafka"]):
        assert pod["containers"][0]["resources"]["requests"]["ephemeral-storage"]


def test_liveness_does_not_test_the_store(case: Rendered) -> None:
    """Otherwise Kubernetes restarts nodes that are cut off from Kafka, which still answer reads."""
    container = case.one("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    probe = container["livenessProbe"]
    assert "tcpSocket" in probe or probe["httpGet"]["path"] == "/health/live"


def test_services_and_policies_select_the_nodes(case: Rendered) -> None:
    nodes = case.one("StatefulSet")["spec"]
    labels = nodes["template"]["metadata"]["labels"].items()
    assert nodes["selector"]["matchLabels"].items() <= labels
    services = {each["metadata"]["name"]: each["spec"] for each in case.kind("Service")}
    assert services[nodes["serviceName"]]["clusterIP"] == "None"
    assert services[nodes["serviceName"]]["publishNotReadyAddresses"] is True
    for service in services.values():
        assert service["selector"].items() <= labels
    for kind, path in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        for each in case.kind(kind):
            assert each["spec"][path]["matchLabels"].items() <= labels
    for job in case.kind("CronJob"):
        builder = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
        assert not nodes["selector"]["matchLabels"].items() <= builder.items()


def test_only_nodes_reach_the_peer_port(rendered: dict[str, Rendered]) -> None:
    clients, _, peers = rendered["options"].one("NetworkPolicy")["spec"]["ingress"]
    assert clients["ports"] == [{"port": "http"}]
    assert clients["from"] == [{"namespaceSelector": {}}]
    assert peers["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "node"


def test_prometheus_reaches_the_nodes_where_clients_are_limited(rendered: dict[str, Rendered]) -> None:
    _, prometheus, _ = rendered["options"].one("NetworkPolicy")["spec"]["ingress"]
    assert prometheus["ports"] == [{"port": "http"}]
    (pods,) = prometheus["from"]
    assert pods["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
    assert pods["namespaceSelector"] == {"matchLabels": {"monitoring": "yes"}}
    everyone, peers = rendered["kafka"].one("NetworkPolicy")["spec"]["ingress"]
    assert "from" not in everyone
    assert "ports" not in peers


def test_an_ingress_lets_in_all_but_what_is_for_administrators(rendered: dict[str, Rendered]) -> None:
    def let_in(name: str) -> set[tuple[str, str]]:
        (rule,) = rendered[name].one("Ingress")["spec"]["rules"]
        return {(each["path"], each["pathType"]) for each in rule["http"]["paths"]}

    def first(path: str) -> str:
        # Of the resources of /usage, some are for administrators alone.
        return "/".join(path.split("/")[: 3 if path.startswith("/usage/") else 2])

    public = {first(each.path) for each in operations("0", None) if each.permission is not ADMINS}
    assert not public & {"/admin", "/metrics", "/node", "/quarantine", "/usage/sources", "/usage/unknown"}
    assert let_in("options") == {(path, "Prefix") for path in public - {"/"} | {ROUTE}} | {("/", "Exact")}
    assert let_in("open ingress") == {("/", "Prefix")}
    assert let_in("ingress by pattern") == {("/registry(/|$)(.*)", "ImplementationSpecific")}


def test_prometheus_selects_each_node_by_its_own_name(rendered: dict[str, Rendered]) -> None:
    options = rendered["options"]
    selected = options.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    (service,) = [each for each in options.kind("Service") if selected <= each["metadata"]["labels"].items()]
    assert service["spec"]["clusterIP"] == "None"
    assert options.one("PrometheusRule")["spec"] == yaml.safe_load((CHART / "alerts.yaml").read_text())


def test_nodes_send_traces_to_the_collector_that_is_given(rendered: dict[str, Rendered]) -> None:
    def sent(name: str) -> Json:
        (node,) = rendered[name].one("StatefulSet")["spec"]["template"]["spec"]["containers"]
        named = (each for each in node["env"] if each["name"].startswith("OTEL_"))
        return {each["name"]: each["value"] for each in named}

    assert sent("kafka") == {}
    found = sent("options")
    assert found.pop("OTEL_RESOURCE_ATTRIBUTES").endswith(",k8s.pod.name=$(POD_NAME)")
    assert found == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.1",
    }


def test_one_node_keeps_its_log_on_its_volume_without_kafka(rendered: dict[str, Rendered]) -> None:
    alone = rendered["alone"]
    assert alone.one("StatefulSet")["spec"]["replicas"] == 1
    assert not {"PodDisruptionBudget", "CronJob", "Secret"} & {each["kind"] for each in alone.objects}
    assert "replicas=3 has no effect" in alone.notes
    assert rendered["kafka"].one("StatefulSet")["spec"]["replicas"] == 3
    assert rendered["options"].one("StatefulSet")["spec"]["replicas"] == 5


def test_a_secret_of_its_own_is_made_only_of_given_contents(rendered: dict[str, Rendered]) -> None:
    assert rendered["secrets"].kind("Secret") == []
    used = {
        each["secret"]["secretName"]
        for pod in workloads(rendered["secrets"])
        for each in pod["volumes"]
        if "secret" in each
    }
    assert used == {"kafka-ca", "kafka-login", "peers", "https", "people", "encoder"}
    assert len(rendered["contents"].one("Secret")["data"]) == 8
    # Without one, Helm makes up the secret of the nodes.
    assert list(rendered["kafka"].one("Secret")["data"]) == ["peer-secret"]


def test_nodes_restart_for_a_given_secret_that_is_only_read_at_their_start() -> None:
    def annotations(**values: Json) -> Json:
        (case,) = render([CONTENTS | values])
        assert not case.error
        found: Json = case.one("StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        return found

    before = annotations()
    assert annotations(peer={"secret": "a new one of nodes"}, users={"content": "bob:hash"}) == before
    assert annotations(encoder={"secret": "0123456789fedcba"}) != before
    both = {"secret": "0123456789fedcba", "oldSecret": CONTENTS["encoder"]["secret"]}
    assert annotations(encoder=both) != annotations(encoder={"secret": "0123456789fedcba"})


def test_secrets_are_in_no_other_object(rendered: dict[str, Rendered]) -> None:
    others = [each for each in rendered["contents"].objects if each["kind"] != "Secret"]
    for secret in ("0123456789abcdef", "fedcba9876543210", "0123456789012345", "a key", "ada:hash"):
        assert secret not in json.dumps(others)


@pytest.mark.parametrize("name", ["secrets", "contents", "peer certificates", "certificates required"])
def test_every_mounted_file_is_used(name: str, rendered: dict[str, Rendered]) -> None:
    (pod,) = workloads(rendered[name])
    paths = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    mounted = {
        f"{paths[each['name']]}/{item['path']}"
        for each in pod["volumes"]
        if "secret" in each
        for item in each["secret"]["items"]
    }
    named = {value for value in settings_file(rendered[name]).values() if str(value).startswith("/etc/")}
    assert mounted == named


def test_a_builder_gets_only_what_a_build_needs(rendered: dict[str, Rendered]) -> None:
    case = rendered["secrets and snapshots"]
    node, builder = workloads(case)
    assert {each["name"] for each in builder["volumes"]} == {
        "config", "tmp", "file-kafka-tls", "file-kafka-sasl"
    }  # fmt: skip
    (config,) = [each["configMap"] for each in builder["volumes"] if each["name"] == "config"]
    assert config["items"] == [{"key": "snapshots.toml", "path": "registrar.toml"}]
    assert {"file-peer", "file-users", "file-tls", "file-encoder"} <= {
        each["name"] for each in node["volumes"]
    }
    assert {*settings_file(case, "snapshots")} == {
        "data", "kafka", "kafka_sasl_mechanism", "kafka_sasl_password_file", "kafka_sasl_username",
        "kafka_security_protocol", "kafka_ssl_ca_location", "log_format", "snapshots", "snapshots_builder",
        "snapshots_every", "store_map_bytes",
    }  # fmt: skip
    assert settings_file(case, "snapshots").items() <= settings_file(case).items()


def test_spark_builds_in_the_image_that_has_it(rendered: dict[str, Rendered]) -> None:
    _, builder = workloads(rendered["kafka"])
    assert builder["containers"][0]["image"] == f"registrar:{VERSION}-spark"
    assert builder["containers"][0]["args"][:4] == ["snapshot", "build", "--engine", "auto"]
    _, local = workloads(rendered["options"])
    assert local["containers"][0]["image"] == f"registrar:{VERSION}"


def test_the_primary_builds_snapshots_if_the_cronjob_does_not(rendered: dict[str, Rendered]) -> None:
    """As with an image that cannot be pulled; what clients request is built, too."""

    def chosen(name: str) -> tuple[str | None, str | None]:
        found = settings_file(rendered[name])
        return found.get("snapshots_builder"), found.get("snapshots_every")

    assert chosen("kafka") == ("local", "1d")
    assert chosen("options") == ("none", None)
    assert chosen("secrets") == (None, None)


def test_images_may_be_named_by_digest(rendered: dict[str, Rendered]) -> None:
    node, builder = workloads(rendered["digests"])
    assert node["containers"][0]["image"] == f"registrar@{DIGEST}"
    assert builder["containers"][0]["image"] == f"registrar@{SPARK_DIGEST}"


def test_spark_may_run_elsewhere(rendered: dict[str, Rendered]) -> None:
    _, builder = workloads(rendered["spark on kubernetes"])
    words = builder["containers"][0]["args"]
    assert "spark.kubernetes.container.image=executors:1" in words
    assert f"spark.kubernetes.namespace={NAMESPACE}" in words
    assert "spark.executor.cores=2" in words
    account = rendered["spark on kubernetes"].one("RoleBinding")["subjects"][0]
    assert account == {
        "kind": "ServiceAccount",
        "name": builder["serviceAccountName"],
        "namespace": NAMESPACE,
    }
    assert builder["automountServiceAccountToken"] is True
    _, standalone = workloads(rendered["spark standalone"])
    assert "spark://spark:7077" in standalone["containers"][0]["args"]
    assert standalone["automountServiceAccountToken"] is False


def test_wrong_values_are_refused_by_name() -> None:
    for found, (name, (_, word)) in zip(
        render([values for values, _ in REFUSED.values()]), REFUSED.items(), strict=True
    ):
        assert word in found.error, name


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == chart["version"] == VERSION


def post(url: str, path: str, body: Json) -> Json:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url + path, json.dumps(body).encode(), headers), timeout=60) as answer:
        found: Json = json.load(answer)
    return found


def get(url: str, path: str) -> Any:
    with urlopen(url + path, timeout=60) as answer:
        return json.load(answer)


def node(case: Rendered, ordinal: int, folder: Path, names: dict[str, str] | None = None) -> Pod:
    """Return a pod of the StatefulSet."""
    (pod, *_) = workloads(case)
    name = f"{RELEASE}-{ordinal}"
    return Pod(name, pod, case.objects, folder / name, image_environment(), names or {})


def answers_its_probes(pod: Pod) -> bool:
    return [pod.probe(f"{which}Probe") for which in ("startup", "readiness", "liveness")] == [200, 200, 200]


def test_what_the_pod_of_a_single_node_runs_serves(rendered: dict[str, Rendered], tmp_path: Path) -> None:
    with node(rendered["alone"], 0, tmp_path) as pod:
        assert answers_its_probes(pod)
        post(pod.url(), "/subjects/a/versions", {"schema": '"string"'})
    with node(rendered["alone"], 0, tmp_path) as again:
        assert get(again.url(), "/subjects") == ["a"]


# In make test, tests/process/test_health.py asks a registry over TLS.
@pytest.mark.long
def test_a_pod_whose_clients_need_certificates_asks_itself(tmp_path: Path) -> None:
    """The kubelet has none; a port on loopback says when the pod is ready, and serves nothing else."""
    certificate = Authority().issue()
    values = {
        "tls": {
            "certificate": certificate.pem.decode(),
            "key": certificate.key_pem().decode(),
            "clientCa": Authority("Clients").pem.decode(),
            "clientAuth": "required",
        }
    }
    (case,) = render([values])
    port = free_port()
    pod = node(case, 0, tmp_path, {"127.0.0.1:8083": f"127.0.0.1:{port}"})
    assert [pod.probe(f"{which}Probe") for which in ("startup", "readiness")] == [503, 503]
    assert pod.container["livenessProbe"]["tcpSocket"] == {"port": "http"}
    with pod:
        assert [pod.probe(f"{which}Probe") for which in ("startup", "readiness")] == [200, 200]
        with pytest.raises(HTTPError) as refused:
            get(f"http://127.0.0.1:{port}", "/subjects")
        refused.value.close()
        assert refused.value.code == 401


def test_what_the_pods_of_a_cluster_run_serves_and_is_backed_up(kafka: Broker, tmp_path: Path) -> None:
    """Two nodes share the topic, and the CronJob's pod builds a snapshot of it in the shared volume."""
    values = {
        **KAFKA,
        "settings": {"topic": "charted", "group": "charted", "replication_factor": 1, "readers": 1},
        "snapshots": {
            "location": "/snapshots",
            "existingClaim": "shared",
            "engine": "local",
            "nodesBuildAfter": "",
        },
    }
    (case,) = render([values])
    assert not case.error
    names = {BROKERS: kafka.address}
    shared = tmp_path / "shared"
    shared.mkdir()
    pods = [node(case, ordinal, tmp_path, names) for ordinal in (0, 1)]
    _, spec = workloads(case)
    builder = Pod("builder", spec, case.objects, tmp_path / "builder", image_environment(), names)
    for pod in (*pods, builder):
        (pod.folder / "snapshots").rmdir()
        (pod.folder / "snapshots").symlink_to(shared)
    with pods[0], pods[1]:
        assert all(map(answers_its_probes, pods))
        # Whichever of them is not the primary forwards its write, which the shared secret authenticates.
        for number, pod in enumerate(pods):
            post(pod.url(), f"/subjects/s{number}/versions", {"schema": '"string"'})
        assert all(get(pod.url(), "/subjects") == ["s0", "s1"] for pod in pods)
        assert {get(pod.url(), "/node")["role"] for pod in pods} == {"primary", "secondary"}
        builder.start()
        assert builder.process is not None
        assert builder.process.wait(60) == 0, builder.output
        builder.kill()
        until(lambda: get(pods[0].url(), "/admin/snapshots"), 30, "the nodes to list the snapshot")
    assert list(shared.rglob("manifest.json"))


def test_the_settings_of_the_image_do_not_win(rendered: dict[str, Rendered]) -> None:
    """The chart's file is in force: the image's own environment is left out by the command."""
    container = workloads(rendered["alone"])[0]["containers"][0]
    assert container["command"][-1] == "registrar"
    left_out = {container["command"][at + 1] for at, word in enumerate(container["command"]) if word == "-u"}
    assert left_out == set(image_environment())
