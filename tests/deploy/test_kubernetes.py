"""The manifests hold to Kubernetes' schemas and to what is good practice there; and what they describe is
started for real, killed and upgraded as a cluster does it, under a load.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import trustme

from tests.deploy.arrangement import Arrangement
from tests.deploy.image import ROOT
from tests.deploy.load import COPIES, TOPIC, Load
from tests.deploy.manifests import Object, expanded, of_kind, read_manifests, render
from tests.peers.requirements import require

OVERLAYS = ("development", "production", "cluster")
VERSIONS = ("1.31", "1.37")
BOOTSTRAP = "kafka:9092"
"""The service; a client is then told the pod's own name."""


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> list[Object]:
    return render(ROOT / "deploy" / "kubernetes" / str(request.param))


def sets(objects: list[Object]) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "StatefulSet")}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_hold(overlay: list[Object], version: str) -> None:
    for each in overlay:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize(("name", "gateways"), [("development", 1), ("production", 1), ("cluster", 3)])
def test_there_is_one_gateway_unless_there_is_an_etcd(name: str, gateways: int) -> None:
    found = sets(render(ROOT / "deploy" / "kubernetes" / name))
    assert found["gateway"]["replicas"] == gateways
    assert ("etcd" in found) is (gateways > 1)


def test_gateways_have_numbers_that_a_gateway_may_have() -> None:
    parts = read_manifests(render(ROOT / "deploy" / "kubernetes" / "cluster"))
    ids = {part.name: part.environment["DAFKA_GATEWAY_ID"] for part in parts if part.role == "gateway"}
    assert ids == {"gateway-1": "1", "gateway-2": "2", "gateway-3": "3"}


def test_pods_have_few_rights(overlay: list[Object]) -> None:
    for name, spec in sets(overlay).items():
        pod = spec["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_probes_ask_the_right_thing(overlay: list[Object]) -> None:
    """Who is not ready, but alive, waits for others or fetches what it missed: killing it would not help."""
    for name, spec in sets(overlay).items():
        (container,) = spec["template"]["spec"]["containers"]
        if name == "etcd":
            assert "serializable" in container["livenessProbe"]["httpGet"]["path"], "it needs no leader"
            continue
        assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
        assert container["startupProbe"]["httpGet"]["path"] == "/health/live"
        assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
        startup = container["startupProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 600


def test_each_pod_has_a_name_in_a_headless_service_before_it_is_ready(overlay: list[Object]) -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(overlay, "Service")}
    for spec in sets(overlay).values():
        service = services[spec["serviceName"]]
        assert service["clusterIP"] == "None"
        assert service["publishNotReadyAddresses"] is True
        assert service["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_at_most_one_store_goes_at_a_time(overlay: list[Object]) -> None:
    budgets = {one["metadata"]["name"]: one["spec"] for one in of_kind(overlay, "PodDisruptionBudget")}
    for name in ("store", "gateway"):
        assert budgets[name]["maxUnavailable"] == 1
        labels = sets(overlay)[name]["template"]["metadata"]["labels"]
        assert budgets[name]["selector"]["matchLabels"].items() <= labels.items()
    assert sets(overlay)["store"]["minReadySeconds"] > 0


@pytest.mark.parametrize("name", ["production", "cluster"])
def test_stores_of_a_production_are_on_machines_of_their_own(name: str) -> None:
    objects = render(ROOT / "deploy" / "kubernetes" / name)
    spec = sets(objects)["store"]["template"]["spec"]
    (rule,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    labels = sets(objects)["store"]["template"]["metadata"]["labels"]
    assert rule["labelSelector"]["matchLabels"].items() <= labels.items()
    assert {each["topologyKey"] for each in spec["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    waited_for = int(of_kind(objects, "ConfigMap")[0]["data"]["DAFKA_STORES"])
    assert waited_for == sets(objects)["store"]["replicas"] == 3


@pytest.fixture(scope="module", params=OVERLAYS)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    return render(with_security(str(request.param), tmp_path_factory.mktemp("overlay")))


def with_security(overlay: str, folder: Path) -> Path:
    """An overlay of a user's own, as the component says."""
    kubernetes = Path(os.path.relpath(ROOT / "deploy" / "kubernetes", folder))
    lines = [f"resources: [{kubernetes / overlay}]", f"components: [{kubernetes / 'secured'}]"]
    (folder / "kustomization.yaml").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_hold_with_security(secured: list[Object], version: str) -> None:
    for each in secured:
        kubernetes_validate.validate(each, version, strict=True)
    test_pods_have_few_rights(secured)


def test_its_listener_asks_who_comes_and_its_other_arguments_stay(secured: list[Object]) -> None:
    arguments: list[str] = sets(secured)["gateway"]["template"]["spec"]["containers"][0]["args"]
    listeners = [one for one in arguments if one.startswith("--listen=INTERNAL=")]
    assert [one.split("@")[0] for one in listeners] == ["--listen=INTERNAL=SASL_SSL://0.0.0.0:9092"]

    assert {"--mesh-listen", "--mesh-advertise"} < {one.split("=")[0] for one in arguments}


def test_secrets_are_files_for_their_owner(secured: list[Object]) -> None:
    pod = sets(secured)["gateway"]["template"]["spec"]
    found = {one["secret"]["secretName"]: one["secret"] for one in pod["volumes"] if "secret" in one}
    assert found.keys() == {"gateway-tls", "gateway-admin"}
    assert {secret["defaultMode"] for secret in found.values()} == {0o400}
    mounts = [mount for one in (*pod["containers"], *pod["initContainers"]) for mount in one["volumeMounts"]]
    assert {mount["readOnly"] for mount in mounts if mount["mountPath"].startswith("/secrets/")} == {True}
    server = pod["containers"][0]
    assert "/secrets/admin" not in {mount["mountPath"] for mount in server["volumeMounts"]}


def test_no_secret_is_in_a_variable(overlay: list[Object], secured: list[Object]) -> None:
    """Whoever may look at a pod sees its variables."""
    for objects in (overlay, secured):
        assert of_kind(objects, "Secret") == []
        for spec in sets(objects).values():
            pod = spec["template"]["spec"]
            for one in (*pod["containers"], *pod.get("initContainers", ())):
                assert "secretKeyRef" not in str(one)
                assert "secretRef" not in str(one)


@pytest.mark.deploy
def test_clients_of_a_secured_cluster_say_who_they_are(tmp_path: Path) -> None:
    """Three gateways that come in to each other by TLS. The first user is made before each start, once."""
    require("ip")
    (tmp_path / "overlay").mkdir()
    parts = read_manifests(render(with_security("cluster", tmp_path / "overlay")))
    secrets = tmp_path / "volumes"
    gateways = [part for part in parts if part.role == "gateway"]
    authority = trustme.CA()
    made = authority.issue_cert("kafka", *(name for part in gateways for name in part.names))
    for name, blob in {
        "gateway-tls/tls.crt": made.cert_chain_pems[0],
        "gateway-tls/tls.key": made.private_key_pem,
        "gateway-tls/ca.crt": authority.cert_pem,
    }.items():
        (secrets / name).parent.mkdir(parents=True, exist_ok=True)
        blob.write_to_path(secrets / name)
        (secrets / name).chmod(0o400)
    (secrets / "gateway-admin").mkdir()
    (secrets / "gateway-admin" / "password").write_text("first-of-all")
    (tmp_path / "admin").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=admin\n"
        f"sasl.password=first-of-all\nssl.ca.location={secrets / 'gateway-tls/ca.crt'}\n"
    )
    with Arrangement(parts, tmp_path) as arrangement:
        as_admin = ("--bootstrap", BOOTSTRAP, "--client-config", str(tmp_path / "admin"))
        arrangement.run("topics", "create", TOPIC, *COPIES, *as_admin)
        for running in arrangement.of_role("gateway"):
            running.restart()
            assert "admin" in arrangement.run("users", "list", *as_admin)
        assert TOPIC in arrangement.run("topics", "list", *as_admin)
        with pytest.raises(AssertionError, match="it closed the connection"):
            arrangement.run("topics", "list", "--bootstrap", BOOTSTRAP)
        for running in arrangement.running.values():
            assert "first-of-all" not in running.log + running.stdout_path.read_text()
            seen = Path(f"/proc/{running.pid}")
            assert b"first-of-all" not in (seen / "cmdline").read_bytes() + (seen / "environ").read_bytes()


def test_variables_are_written_in_as_kubernetes_does_it() -> None:
    assert expanded("$(A).x.$(B)", {"A": "a"}) == "a.x.$(B)"


@pytest.mark.deploy
def test_development_is_killed_and_upgraded_under_a_load(tmp_path: Path) -> None:
    require("ip")
    parts = read_manifests(render(ROOT / "deploy" / "kubernetes" / "development"))
    with Arrangement(parts, tmp_path) as arrangement:
        arrangement.run("topics", "create", TOPIC, "--partitions", "4", "--bootstrap", BOOTSTRAP)
        with Load(arrangement, BOOTSTRAP, tmp_path / "load") as load:
            load.go_on()
            for name in ("store-0", "gateway-0", "tower-0"):
                running = arrangement.running[name]
                running.kill9()
                running.launch()
                running.wait_until_ready()
                load.go_on()
                running.restart()
                load.go_on()
            load.judge()


@pytest.mark.deploy
def test_a_production_is_killed_and_upgraded_one_by_one_under_a_load(tmp_path: Path) -> None:
    """In the order of a cluster: the pod with the highest number first, the next one when that is ready."""
    require("ip")
    parts = read_manifests(render(ROOT / "deploy" / "kubernetes" / "production"))
    assert [part.name for part in parts] == [
        "gateway-0",
        "store-0",
        "store-1",
        "store-2",
        "tower-0",
        "tower-1",
    ]
    with Arrangement(parts, tmp_path) as arrangement:
        arrangement.run("topics", "create", TOPIC, *COPIES, "--bootstrap", BOOTSTRAP)
        with Load(arrangement, BOOTSTRAP, tmp_path / "load") as load:
            load.go_on()
            load.outlives_each_kill()
            for role in ("tower", "store", "gateway"):
                for running in reversed(arrangement.of_role(role)):
                    running.restart()
                    assert running.part.live is not None
                    assert running.answers(running.part.live)
                    load.go_on()
            load.judge()
        for running in arrangement.running.values():
            assert running.terminate(running.part.grace_seconds) == 0, running.tail()
            assert "Traceback" not in running.log


@pytest.mark.deploy
def test_a_cluster_is_killed_and_upgraded_one_by_one_under_a_load(tmp_path: Path) -> None:
    require("ip")
    parts = read_manifests(render(ROOT / "deploy" / "kubernetes" / "cluster"))
    with Arrangement(parts, tmp_path) as arrangement:
        arrangement.run("topics", "create", TOPIC, *COPIES, "--bootstrap", BOOTSTRAP)
        with Load(arrangement, BOOTSTRAP, tmp_path / "load") as load:
            load.go_on()
            load.outlives_each_kill()
            for role in ("etcd", "tower", "store", "gateway"):
                for running in reversed(arrangement.of_role(role)):
                    running.restart()
                    load.go_on()
            load.judge()
        for running in arrangement.running.values():
            running.stop()
            assert "Traceback" not in running.log


@pytest.mark.deploy
def test_pods_that_come_back_with_other_addresses_are_found_by_their_names(tmp_path: Path) -> None:
    """Two stores and the gateway move, so that nothing is acknowledged before the new addresses are known."""
    require("ip")
    parts = read_manifests(render(ROOT / "deploy" / "kubernetes" / "production"))
    with Arrangement(parts, tmp_path) as arrangement:
        arrangement.run("topics", "create", TOPIC, *COPIES, "--bootstrap", BOOTSTRAP)
        with Load(arrangement, BOOTSTRAP, tmp_path / "load") as load:
            load.go_on()
            for name in ("store-0", "store-1", "gateway-0", "tower-0"):
                running = arrangement.running[name]
                running.kill9()
                arrangement.move(running)
                running.launch()
                running.wait_until_ready()
            load.go_on()
            load.judge()
