"""The start of Spark's Java process: what it says on standard error is kept back, and explained if it ends.

Java, Ivy and Spark write some forty lines at each start that nobody asked for; when there is no start, one of
them says why. Behind the start what the process writes (of a user's function, of Java's last moments) goes
through.
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
"""Of the last lines before a start fails; the cause is among them."""
SHOWN_LINES: Final = 20
"""Of those, when nobody knows what they mean."""
_NOISE: Final = re.compile(
    r"WARNING: Using incubator modules|WARNING: package \S+ not in"
    r"|Setting default log level to|To adjust logging|Picked up (?:JAVA_TOOL|_JAVA)_OPTIONS|SLF4J: "
)


class Voice:
    """What a process that is started meanwhile writes to standard error.

    verbose: let everything through at once.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._through = verbose
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._lock = threading.Lock()

    @property
    def lines(self) -> list[str]:
        """What was kept back so far."""
        with self._lock:
            return list(self._kept)

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


@contextmanager
def heard(*, verbose: bool) -> Iterator[Voice]:
    """Processes that are started in the block have a standard error that is heard, also behind the block."""
    voice = Voice(verbose=verbose)
    sys.stderr.flush()
    source, sink = os.pipe()
    ours = os.dup(2)
    # The file descriptor that is written to when the start is over; not inherited.
    target = os.dup(ours)
    os.dup2(sink, 2)
    os.close(sink)
    reader = threading.Thread(target=voice.read, args=(source, target), name="java-voice", daemon=True)
    reader.start()
    try:
        yield voice
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def explain_start(lines: list[str], fill: str) -> PipelineError:
    """Why Spark's Java process ended before it was there. `fill`: how to do without Maven."""
    words = "\n".join(lines)
    if re.search(
        r"UNRESOLVED DEPENDENCIES|unresolved dependency|Server access error|FAILED DOWNLOADS", words
    ):
        found = re.search(
            r"^.*(?:Server access error|Host \S+ not found|not found|timed out).*$", words, re.MULTILINE
        )
        why = f" ({' '.join(found[0].split())})" if found else ""
        return UsageFailure(
            f"Spark's jars cannot be fetched from Maven{why}. Without a network: --jars DIR. {fill}"
        )
    if re.search(
        r"Could not reserve enough space|insufficient memory|maximum heap size|heap size specified", words
    ):
        return UsageFailure(
            f"Java does not get the memory it was told to take ({_java_error(lines)}): see --conf "
            f"spark.driver.memory."
        )
    if re.search(r"Unrecognized (?:VM )?option|Could not create the Java Virtual Machine", words):
        return UsageFailure(
            f"Java does not take its options ({_java_error(lines)}): see --conf "
            "spark.driver.extraJavaOptions and the environment's JAVA_TOOL_OPTIONS."
        )
    if "No space left on device" in words:
        return PipelineError(
            "Spark did not start: a disk is full (--conf spark.local.dir=DIR, --conf spark.jars.ivy=DIR)."
        )
    shown = "\n".join(lines[-SHOWN_LINES:])
    return UsageFailure(f"Spark did not start: {_java_error(lines)}.\nIts last lines:\n{shown}")


def _java_error(lines: list[str]) -> str:
    words = "\n".join(lines)
    found = re.search(
        r"^(?:Exception in thread \"[^\"]*\" |Error: (?!Could not create|A fatal))(.*)$", words, re.MULTILINE
    )
    return " ".join(found[1].split()) if found else root_cause(words)
