"""Brings librdkafka with its tests from npm, at the version that suite.toml pins, and builds them.

`python -m librdkafka.bring FOLDER` leaves in FOLDER

    librdkafka/   its sources, and in tests/ the program `test-runner`
    kafka/        bin/ and libs/ of a Kafka distribution, as far as the tests call them: KAFKA_PATH
"""

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

from tests.peers.maven import kafka_jars
from tests.peers.requirements import require

HERE = Path(__file__).parent
INSIDE = Path("package/deps/librdkafka")
# Header files alone; without them four tests skip themselves.
RAPIDJSON = "rapidjson-dev"
JOBS = 2
STEP_TIMEOUT_SECONDS = 800

JAVA = """#!/bin/sh
exec {java} -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \\
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$CLASSPATH:{jars}/*" "$@"
"""
TOPICS = """#!/bin/sh
exec "$(dirname "$0")/kafka-run-class.sh" org.apache.kafka.tools.TopicCommand "$@"
"""


def main() -> None:
    folder = Path(sys.argv[1])
    with (HERE / "suite.toml").open("rb") as file:
        about = tomllib.load(file)
    _unpack(_tarball(about["package"], about["integrity"], folder), folder)
    _make_kafka_path(folder / "kafka")
    _build(folder)


def _tarball(package: str, integrity: str, folder: Path) -> Path:
    """The package's file, which must have the digest (`sha512-BASE64`, as the registry gives it)."""
    _run([require("npm"), "pack", "--silent", package], folder)
    (tarball,) = folder.glob("*.tgz")
    algorithm, expected = integrity.split("-", 1)
    found = base64.b64encode(hashlib.new(algorithm, tarball.read_bytes()).digest()).decode()
    if found != expected:
        raise SystemExit(f"{package} has the digest {found} and should have {expected}")
    return tarball


def _unpack(tarball: Path, folder: Path) -> None:
    with tarfile.open(tarball) as archive:
        archive.extractall(folder / "npm", filter="data")
    (folder / "npm" / INSIDE).rename(folder / "librdkafka")
    tarball.unlink()


def _make_kafka_path(folder: Path) -> None:
    jars = kafka_jars()
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (folder / "libs").symlink_to(jars)
    for name, text in (
        ("kafka-run-class.sh", JAVA.format(java=require("java"), jars=jars)),
        ("kafka-topics.sh", TOPICS),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)


def _build(folder: Path) -> None:
    sources = folder / "librdkafka"
    _run(["apt-get", "download", "-q", RAPIDJSON], folder)
    (archive,) = folder.glob(f"{RAPIDJSON}_*.deb")
    _run(["dpkg", "-x", str(archive), str(folder / "rapidjson")], folder)
    # As headers of the system: their warnings must not be errors of the configure script.
    _run(["./configure", f"--CPPFLAGS=-isystem {folder / 'rapidjson/usr/include'}"], sources)
    _run(["make", f"-j{JOBS}", "libs"], sources)
    _run(["make", f"-j{JOBS}", "-C", "tests", "build"], sources)
    _run(["make", "-C", "tests", "java"], sources, {"KAFKA_PATH": str(folder / "kafka")})


def _run(command: list[str], where: Path, environment: dict[str, str] | None = None) -> None:
    """A step, at a low priority: whatever else runs on the machine goes first."""
    result = subprocess.run(
        ["nice", *command],
        cwd=where,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=STEP_TIMEOUT_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        words = (result.stdout + result.stderr)[-2000:]
        raise SystemExit(f"{' '.join(command)} ended with {result.returncode}:\n{words}")


if __name__ == "__main__":
    main()
