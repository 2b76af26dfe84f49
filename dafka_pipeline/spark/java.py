"""Whether there is a Java that Spark can run in, found before Spark is tried."""

import os
import re
import shutil
import subprocess
from typing import Final

from dafka_pipeline.failures import UsageFailure

LOWEST: Final = 17
"""Spark 4 needs Java 17 or newer."""
HIGHEST: Final = 22
"""From Java 23 on Hadoop's libraries do not run as Spark 4.0 has them (`Subject.getSubject` is not
supported)."""
ANSWER_SECONDS: Final = 30
HOW: Final = (
    "Install a JDK 17 or 21 (Debian and Ubuntu: 'apt-get install openjdk-17-jre-headless'; macOS: "
    "'brew install openjdk@17'), or set JAVA_HOME to one."
)


def check_java() -> None:
    """Raises UsageFailure when no Java is found, or one that is too old for Spark."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise UsageFailure(f"Spark needs Java, and there is no 'java' {where}. {HOW}")
    try:
        asked = subprocess.run(  # noqa: S603  # the path comes from this user's own environment
            [java, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageFailure(f"{java} does not run: {error}. {HOW}") from error
    version = java_version(asked.stderr + asked.stdout)
    if version is None:
        raise UsageFailure(f"{java} does not say which version it is. {HOW}")
    if not LOWEST <= version <= HIGHEST:
        raise UsageFailure(f"{java} is Java {version}, and Spark needs {LOWEST} to {HIGHEST}. {HOW}")


def java_version(text: str) -> int | None:
    """The major version out of what `java -version` prints; Java 8 calls itself 1.8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major
