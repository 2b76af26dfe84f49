"""Java programs over the cached jars: Kafka's own tools, and the small clients of `java_clients`."""

import hashlib
import shutil
import subprocess
from functools import partial
from pathlib import Path

from tests.peers.cache import cached_folder
from tests.peers.maven import KAFKA_VERSION, client_jars, kafka_jars
from tests.peers.requirements import require

SOURCES = Path(__file__).parent / "java_clients"
TOOL_TIMEOUT_SECONDS = 120.0
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that has little to do: without them it spends more on its compiler than on its work."""
# Kafka's clients say much at `info`; what goes wrong is said above it.
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def java_command(
    main_class: str, *classpath: Path, heap: str = "256m", options: tuple[str, ...] = ()
) -> list[str]:
    """The command line of a class; folders in `classpath` count with the jars and classes in them."""
    entries = ":".join(f"{entry}:{entry}/*" if entry.is_dir() else str(entry) for entry in classpath)
    return [require("java"), f"-Xmx{heap}", *options, "-cp", entries, main_class]


def java_tool(
    main_class: str,
    *arguments: str,
    stdin: str | None = None,
    jars: Path | None = None,
    heap: str = "512m",
    options: tuple[str, ...] = SHORT_LIVED,
    timeout: float = TOOL_TIMEOUT_SECONDS,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's (`org.apache.kafka.tools.TopicCommand`, ...) to its end; its output is text.

    Raises AssertionError with what it said, when it fails and `check` holds.
    """
    command = [
        *java_command(main_class, jars or kafka_jars(), heap=heap, options=(*options, QUIET)),
        *arguments,
    ]
    return _run(command, stdin, timeout, check=check)


def java_client(
    name: str,
    *arguments: str,
    stdin: str | None = None,
    version: str = KAFKA_VERSION,
    timeout: float = TOOL_TIMEOUT_SECONDS,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run one of our Java clients (`Producer`, `AssignedConsumer`) on the Kafka clients of a version."""
    return _run(
        [*client_command(name, version, options=SHORT_LIVED), *arguments], stdin, timeout, check=check
    )


def client_command(
    name: str,
    version: str = KAFKA_VERSION,
    *,
    sources: Path = SOURCES,
    heap: str = "512m",
    options: tuple[str, ...] = (),
) -> list[str]:
    """The command line of `<sources>/<name>.java`, compiled if need be; arguments go behind it."""
    jars = client_jars(version)
    return java_command(name, compiled(sources, jars), jars, heap=heap, options=(*options, QUIET))


def compiled(sources: Path, jars: Path) -> Path:
    """A cached folder with the classes of every .java file of a folder, compiled against the jars."""
    files = sorted(sources.glob("*.java"))
    digest = hashlib.sha256(jars.name.encode() + b"".join(file.read_bytes() for file in files)).hexdigest()[
        :8
    ]
    return cached_folder(f"classes-{jars.name}-{digest}", partial(_compile, files, jars))


def _compile(files: list[Path], jars: Path, folder: Path) -> None:
    command = [
        require("javac"),
        "-Xlint:all,-path,-classfile",
        "-Werror",
        "-proc:none",
        "-cp",
        f"{jars}/*",
        "-d",
        str(folder),
    ]
    try:
        _run([*command, *map(str, files)], None, TOOL_TIMEOUT_SECONDS, check=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(
    command: list[str], stdin: str | None, timeout: float, *, check: bool
) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        command, input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    if check and result.returncode != 0:
        name = next((part for part in command if "." in part and "/" not in part), command[0])
        raise AssertionError(
            f"{name} ended with {result.returncode}:\n{(result.stdout + result.stderr)[-4000:]}"
        )
    return result
