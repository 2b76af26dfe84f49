"""The audit itself: sums of both sides, then the ranges that differ, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.audit.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit_frames(spark: SparkSession, left: Side, right: Side, options: AuditOptions) -> Verdict:
    """Compare two sides.

    Raises PipelineError when a side can no more be read as it was pinned; the message says why.
    """
    raise NotImplementedError
