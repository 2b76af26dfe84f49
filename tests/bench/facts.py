"""What a result says of where it was measured: the machine, the versions, the commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.bench.generator import GO_MOD
from tests.peers.maven import KAFKA_VERSION

ROOT = Path(__file__).parents[2]


def say(text: str) -> None:
    """A word about the run, beside its result."""
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    """The machine in one line."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    return f"{system}, {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB"


def versions() -> str:
    """What was measured and what measured it, in one line."""
    rocksdict, librdkafka = version("rocksdict"), version("confluent-kafka")
    franz_go = re.search(r"franz-go v(\S+)", GO_MOD.read_text())
    return (
        f"Apache Kafka {KAFKA_VERSION} on {_java()}; "
        f"Python {platform.python_version()}, rocksdict {rocksdict}; "
        f"clients: confluent-kafka {librdkafka}, franz-go {franz_go[1] if franz_go else '?'}"
    )


def commit(folder: Path = ROOT) -> str:
    """The commit of a checkout, and whether it was changed since."""
    try:
        name = _said("git", "-C", str(folder), "rev-parse", "--short=12", "HEAD")
        changed = _said("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return f"{name} and changes" if changed else name


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor()


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no JDK"
    found = re.search(r'version "([^"]+)"', said.stderr)
    return f"JDK {found[1]}" if found else "a JDK"


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
