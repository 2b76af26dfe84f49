"""What a test needs of the machine: a laptop without it skips, the continuous integration fails."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

HOW_TO_GET = {
    "buildah": "apt-get install buildah",
    "debootstrap": "apt-get install debootstrap",
    "ip": "apt-get install iproute2",
    "chromium": "apt-get install chromium",
    "cargo": "apt-get install cargo-web",
    "etcd": "apt-get install etcd-server",
    "gcc": "apt-get install gcc",
    "java": "apt-get install default-jdk-headless",
    "javac": "apt-get install default-jdk-headless",
    "kcat": "apt-get install kcat",
    "mvn": "apt-get install maven",
    "node": "apt-get install nodejs",
    "prometheus": "apt-get install prometheus",
    "promtool": "apt-get install prometheus",
    "npm": "apt-get install npm",
    "strace": "apt-get install strace",
    "systemd-analyze": "apt-get install systemd",
}


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def unavailable(reason: str) -> NoReturn:
    """End the calling test: failed where nothing may be missing (CI), else skipped. Outside pytest: exit."""
    if "PYTEST_VERSION" not in os.environ:
        raise SystemExit(reason)
    import pytest  # the benchmark runs without it

    if in_ci():
        pytest.fail(f"{reason} (CI=true: nothing may be missing)", pytrace=False)
    pytest.skip(reason)


def require(tool: str) -> str:
    """The full path of a program, or the end of the test that needs it (see `unavailable`)."""
    path = shutil.which(tool)
    if path is None:
        hint = HOW_TO_GET.get(tool)
        unavailable(f"{tool} is not installed" + (f": {hint}" if hint else ""))
    return path


def kustomize() -> list[str]:
    """The beginning of a command that renders a folder of manifests, or the end of the test that needs it."""
    if path := shutil.which("kustomize") or shutil.which("kustomize", path=_go_binaries()):
        return [path, "build"]
    if path := shutil.which("kubectl"):
        return [path, "kustomize"]
    unavailable("kustomize is not installed: go install sigs.k8s.io/kustomize/kustomize/v5@v5.8.1")


def _go_binaries() -> str:
    return os.environ.get("GOBIN") or str(Path(os.environ.get("GOPATH") or Path.home() / "go") / "bin")
