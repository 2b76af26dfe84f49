"""How a job ends: exit codes, and failures that name their cause and the next step.

::

    0  done, or stopped when asked   3  refused: what is there does not agree; what was done before stays
    1  an audit found differences    4  failed: what was begun is safe, and the same command goes on with it
    2  usage or environment          5  a bug of ours
"""

from typing import Final

EXIT_OK: Final = 0
EXIT_DIFFERS: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_FAILED: Final = 4
EXIT_BUG: Final = 5


class PipelineError(Exception):
    """A job cannot do what it was asked. The message says why, and what to do next."""

    exit_code = EXIT_FAILED
    retriable = False
    """Whether the same may go well a moment later."""
    told = False
    """Whether whoever started the job has been told already."""


class UsageFailure(PipelineError):
    """An option is wrong, or the machine lacks something (a JDK, a jar)."""

    exit_code = EXIT_USAGE


class Refused(PipelineError):
    """What is there does not agree with what was asked; going on could lose or double records."""

    exit_code = EXIT_REFUSED


class KafkaAway(PipelineError):
    """No broker answers. Jobs wait for it where they can."""

    retriable = True
    bootstrap: str | None = None
    """Where it was asked, if that is known."""


class Stopped(PipelineError):
    """The job was asked to stop; what it had committed stays, and the next start goes on after it."""

    exit_code = 0


class RecordsGone(PipelineError):
    """What was to be read is no longer in Kafka: planned again, a job sees what there still is."""

    retriable = True
