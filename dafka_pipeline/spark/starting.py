"""The start of Spark's Java process: what it says is kept back, and explained if it ends.

Java, Ivy and Spark write some forty lines at each start that nobody asked for; when there is no start, one of
them says why. After the start, what the process writes (from a user's function, from Java's last moments)
goes through.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dafka_pipeline.failures import PipelineError, UsageFailure
from dafka_pipeline.spark.errors import root_cause

KEPT_LINES: Final = 200
"""How many of the last lines before a failed start are kept; the cause is among them."""
SHOWN_LINES: Final = 20
"""How many of those are shown when nobody knows what they mean."""
ENDED_SECONDS: Final = 5.0
"""How long the last words of a process that has ended are waited for: a child of it may keep them open."""
_NOISE: Final = re.compile(
    r"WARNING: Using incubator modules|WARNING: package \S+ not in"
    r"|Setting default log level to|To adjust logging|Picked up (?:JAVA_TOOL|_JAVA)_OPTIONS|SLF4J: "
)


class Voice:
    """What a process writes that is started meanwhile; it goes to our standard error.

    verbose: let everything through at once.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._through = verbose
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def lines(self) -> list[str]:
        """What was kept back so far."""
        with self._lock:
            return list(self._kept)

    def last_lines(self) -> list[str]:
        """As `lines`, once the process has ended and all that it wrote is read."""
        self._ended.wait(ENDED_SECONDS)
        return self.lines

    def let_through(self) -> None:
        """The start went well: from now on only noise is kept back."""
        with self._lock:
            self._through = True

    def read(self, source: int, target: int) -> None:
        """Until nobody writes any more; owns both descriptors."""
        with os.fdopen(source, errors="replace") as lines, os.fdopen(target, "w") as out:
            for line in lines:
                with self._lock:
                    self._kept.append(line.rstrip("\n"))
                    through = self._through and not _NOISE.search(line)
                if through:
                    try:
                        out.write(line)
                        out.flush()
                    except OSError:
                        # Whoever read our standard error has gone; the process must go on writing.
                        continue
        self._ended.set()


@contextmanager
def heard(voice: Voice) -> Iterator[None]:
    """Processes that are started in the block speak to `voice`, also after the block.

    Both what they write to standard output (Java's own last words go there) and to standard error: ours goes
    to whoever reads the result of the job.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    source, sink = os.pipe()
    ours = {stream: os.dup(stream) for stream in (1, 2)}
    reader = threading.Thread(target=voice.read, args=(source, os.dup(2)), name="java-voice", daemon=True)
    for stream in ours:
        os.dup2(sink, stream)
    os.close(sink)
    reader.start()
    try:
        yield
    finally:
        for stream, copy in ours.items():
            os.dup2(copy, stream)
            os.close(copy)


def explain_start(lines: list[str], fill: str) -> PipelineError:
    """Why Spark's Java process ended before it was there. `fill`: how to do without Maven."""
    words = "\n".join(lines)
    why = _java_error(words)
    if re.search(
        r"UNRESOLVED DEPENDENCIES|unresolved dependency|Server access error|FAILED DOWNLOADS", words
    ):
        return UsageFailure(
            f"Spark's jars cannot be fetched from Maven ({_maven_error(words)}). "
            f"Without a network: --jars DIR. {fill}"
        )
    if re.search(
        r"Could not reserve enough|insufficient memory|maximum heap size|heap size specified", words
    ):
        return UsageFailure(
            f"Java does not get the memory that it was told to take: see --conf spark.driver.memory. ({why})"
        )
    if "Master must" in words or "Could not parse Master" in words:
        return UsageFailure(
            "Spark does not know such a master: --master takes e.g. local[2], spark://HOST:7077, yarn, "
            f"k8s://https://HOST:443. ({why})"
        )
    if "No space left on device" in words:
        return PipelineError(
            "Spark did not start: a disk is full. --conf spark.local.dir=DIR moves what Spark spills, --conf "
            f"spark.jars.ivy=DIR its jars. ({why})"
        )
    shown = "".join(f"\n  {line}" for line in lines[-SHOWN_LINES:])
    return UsageFailure(f"Spark did not start: {why}. Its last lines:{shown}")


def _java_error(words: str) -> str:
    found = re.search(
        r"^(?:Exception in thread \"[^\"]*\" |Error: (?!Could not create|A fatal))(.*)$", words, re.MULTILINE
    )
    return " ".join(found[1].split()) if found else root_cause(words)


def _maven_error(words: str) -> str:
    """Ivy names every place where it looked; one of Spark's own that hardly anybody reaches is among them."""
    for pattern in (
        r"Server access error.*",
        r"Host (?!repos\.spark-packages)\S+ not found",
        r"unresolved dependency: [^,\]]*",
    ):
        found = re.search(pattern, words)
        if found:
            return " ".join(found[0].split())
    return "it does not say why"
