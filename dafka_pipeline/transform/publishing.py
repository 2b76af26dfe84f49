"""An outbox and its publication as the sink of a query: what every batch does, and what a start does
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import PipelineError, Refused
from dafka_pipeline.producing import Publisher
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.spark.errors import explain_spark
from dafka_pipeline.transform.outbox import Outbox
from dafka_pipeline.transform.outbox_state import ANEW
from dafka_pipeline.transform.topics import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


LONGEST: Final = 1000
"""Characters of a failure that go through Spark; the whole of it is kept here."""


class BatchFailed(Exception):
    """What Spark is told; `OutboxSink.failure` is the real one."""


class OutboxSink:
    """Batches into the outbox, and from there into the targets.

    failure: what a batch ended with, as Python raised it; None while all went well.
    """

    def __init__(self, outbox: Outbox, publisher: Publisher, watch: Watch) -> None:
        self._outbox = outbox
        self._publisher = publisher
        self._watch = watch
        self.failure: PipelineError | None = None

    def begin(self) -> None:
        """Before a query starts: publish what the outbox has and the targets lack.

        Raises Refused where outbox, checkpoint and targets do not belong together.
        """
        self.failure = None
        self._outbox.open()
        newest = self._outbox.newest_batch
        self._refuse_ahead(-1 if newest is None else newest)
        if newest is not None:
            self._publisher.publish(self._outbox.rows())
            self._outbox.trim(newest, now=True)

    def batch(self, frame: DataFrame, number: int) -> None:
        """One batch: written once, published once."""
        try:
            self._batch(frame, number)
        except Exception as failure:  # noqa: BLE001  # Spark's, Py4J's and ours; it is raised again
            self.failure = explain_spark(failure)
            self.failure.__cause__ = failure
            # Spark's thread takes the whole traceback apart, and runs out of stack on a long one.
            raise BatchFailed(f"batch {number}: {self.failure}"[:LONGEST]) from None

    def _batch(self, frame: DataFrame, number: int) -> None:
        self._outbox.write(frame, number)
        # What was read from a topic that was made again meanwhile must not go on.
        self._watch.look()
        self._publisher.publish(self._outbox.rows(number))
        fail_point("transform-after-publish")
        self._outbox.trim(number)

    def _refuse_ahead(self, newest: int) -> None:
        for at, tail in self._publisher.progress().items():
            if tail.position[0] > newest:
                raise Refused(
                    f"{at.topic}-{at.partition} has records of batch {tail.position[0]} of this transform, "
                    "and the "
                    f"outbox goes as far as batch {newest}: checkpoint and outbox were restored from an "
                    "older copy. "
                    f"Bring back the newest one. {ANEW}"
                )
