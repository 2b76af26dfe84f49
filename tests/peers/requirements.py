"""What a test needs of the machine: a laptop without it skips, the continuous integration fails."""

import os
import shutil
from typing import NoReturn

HOW_TO_GET = {
    "cargo": "apt-get install cargo-web",
    "gcc": "apt-get install gcc",
    "java": "apt-get install default-jdk-headless",
    "javac": "apt-get install default-jdk-headless",
    "kcat": "apt-get install kcat",
    "mvn": "apt-get install maven",
    "node": "apt-get install nodejs",
    "npm": "apt-get install npm",
    "strace": "apt-get install strace",
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
