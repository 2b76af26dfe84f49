"""A file for Docker Compose, as the parts that run this project's image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.deploy.parts import Check, Part

IMAGE = "dafka-gateway"

ETCD = "quay.io/coreos/etcd:"
"""How the image of an etcd begins: the machine's own is started in its place."""

ETCD_HEALTH = Check(port=2379, path="/health")

IMAGE_ENVIRONMENT = {"DAFKA_DATA": "/data", "DAFKA_METRICS": "0.0.0.0:9404"}
"""What the Dockerfile sets; a test compares them."""

HEALTH = Check(command=("dafka", "health"))
"""The image's check, where a service has none of its own."""


def read_compose(path: Path) -> list[Part]:
    """The services of `IMAGE` and of etcd, in the file's order. Raises AssertionError on what is not
    understood.
    """
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return [
        _part(name, service)
        for name, service in document["services"].items()
        if service["image"].startswith((IMAGE, ETCD)) and "profiles" not in service
    ]


UNDERSTOOD = {
    *("build", "image", "command", "environment", "volumes", "ports", "stop_grace_period", "restart"),
    *("read_only", "tmpfs", "cap_drop", "security_opt"),
}


def _part(name: str, service: dict[str, Any]) -> Part:
    assert service.keys() <= UNDERSTOOD, f"{name}: {service.keys() - UNDERSTOOD} changes how it is started"
    grace = service["stop_grace_period"]
    assert grace.endswith("s"), grace
    volumes = (volume.split(":") for volume in service.get("volumes", ()))
    is_etcd = service["image"].startswith(ETCD)
    command = tuple(service["command"])
    given = {key: str(text) for key, text in service.get("environment", {}).items()}
    return Part(
        name=name,
        command=command[1:] if is_etcd else command,
        environment=given if is_etcd else IMAGE_ENVIRONMENT | given,
        volumes={path: volume for volume, path in volumes},
        names=(name,),
        grace_seconds=float(grace[:-1]),
        ready=ETCD_HEALTH if is_etcd else HEALTH,
        program=command[0] if is_etcd else "",
    )
