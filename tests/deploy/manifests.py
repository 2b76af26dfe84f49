"""Kubernetes manifests, as kustomize renders them, as the parts that a cluster would start."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.deploy.compose import ETCD, IMAGE, IMAGE_ENVIRONMENT
from tests.deploy.parts import Check, Part
from tests.peers.requirements import kustomize

Object: TypeAlias = dict[str, Any]


def render(folder: Path) -> list[Object]:
    """What `kubectl apply -k` would send."""
    done = subprocess.run([*kustomize(), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def read_manifests(objects: list[Object]) -> list[Part]:
    """The pods of all StatefulSets, in the order of their names."""
    settings = {one["metadata"]["name"]: one["data"] for one in of_kind(objects, "ConfigMap")}
    return [
        _part(each, number, objects, settings)
        for each in of_kind(objects, "StatefulSet")
        for number in _numbers(each["spec"])
    ]


def _numbers(spec: Object) -> range:
    first = spec.get("ordinals", {}).get("start", 0)
    return range(first, first + spec["replicas"])


def _part(each: Object, number: int, objects: list[Object], settings: Mapping[str, Any]) -> Part:
    namespace, name = each["metadata"]["namespace"], f"{each['metadata']['name']}-{number}"
    spec = each["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    is_etcd = container["image"].startswith(ETCD)
    assert is_etcd or container["image"].partition(":")[0] == IMAGE
    assert container.get("command", []) == (["etcd"] if is_etcd else []), "the entry point would not run"
    variables = {} if is_etcd else dict(IMAGE_ENVIRONMENT)
    for source in container.get("envFrom", ()):
        variables |= settings[source["configMapRef"]["name"]]
    fields = {
        "metadata.name": name,
        "metadata.namespace": namespace,
        "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
    }
    for entry in container["env"]:
        variables[entry["name"]] = (
            expanded(entry["value"], variables)
            if "value" in entry
            else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        )
    volumes = {
        claim["metadata"]["name"]: f"{claim['metadata']['name']}-{name}"
        for claim in each["spec"].get("volumeClaimTemplates", ())
    }
    # All pods have the same secrets.
    volumes |= {
        one["name"]: one["secret"]["secretName"] for one in spec.get("volumes", ()) if "secret" in one
    }
    first = spec.get("initContainers", ())
    return Part(
        name=name,
        command=tuple(expanded(argument, variables) for argument in container["args"]),
        environment=variables,
        volumes={
            mount["mountPath"]: volumes[mount["name"]]
            for one in (container, *first)
            for mount in one["volumeMounts"]
            if mount["name"] in volumes
        },
        names=tuple(_names(each, name, namespace, objects)),
        grace_seconds=float(spec["terminationGracePeriodSeconds"]),
        ready=_check(container, "readinessProbe"),
        live=_check(container, "livenessProbe"),
        program="etcd" if is_etcd else "",
        first=tuple(tuple(one["args"]) for one in first),
    )


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """With $(NAME) as Kubernetes writes it in: only variables that stand before it, and the rest as it is."""
    return re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), text)


def _names(each: Object, name: str, namespace: str, objects: list[Object]) -> Iterable[str]:
    """The pod's own name in its headless service, and those of services that lead to it alone."""
    labels = {**each["spec"]["template"]["metadata"]["labels"], "statefulset.kubernetes.io/pod-name": name}
    for service in of_kind(objects, "Service"):
        spec, called = service["spec"], service["metadata"]["name"]
        if not spec["selector"].items() <= labels.items():
            continue
        if spec.get("clusterIP") != "None":
            yield from _in_cluster(called, namespace)
        elif called == each["spec"]["serviceName"]:
            yield from _in_cluster(f"{name}.{called}", namespace)


def _in_cluster(name: str, namespace: str) -> Iterable[str]:
    """As a pod of the same namespace may write it, by the search domains that it has."""
    return (
        f"{name}{rest}"
        for rest in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    )


def _check(container: Object, which: str) -> Check:
    page = container[which]["httpGet"]
    (port,) = (port["containerPort"] for port in container["ports"] if port["name"] == page["port"])
    return Check(port=port, path=page["path"])
