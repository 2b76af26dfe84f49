"""What an outbox says of itself, and whether it and a checkpoint belong together. Pure.

Batch N of a query is written to the outbox by one commit that says whose it is and which offsets it was made
of. A checkpoint from a copy would plan other offsets under numbers that the outbox has already; a
new checkpoint begins at number 0 again. Both are noticed here, before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from dafka_pipeline.failures import Refused

FORMAT: Final = 1


@dataclass(frozen=True)
class Written:
    """What a commit of an outbox says.

    transform: the id in the checkpoint's `dafka.json`. query: Spark's id of the query.
    offsets: what the batch had read up to, as `Planned.said` has it.
    """

    transform: str
    query: str
    batch: int
    offsets: str

    def to_json(self) -> str:
        return json.dumps({"dafka_outbox": FORMAT, **asdict(self)}, separators=(",", ":"))


def parse_written(text: str | None) -> Written | None:
    """What a commit says; None where it is not a batch's. Raises Refused for a later version's format."""
    try:
        found: Any = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(found, dict) or "dafka_outbox" not in found:
        return None
    version = found.pop("dafka_outbox")
    if version != FORMAT:
        raise Refused(
            f"The outbox is written in format {version}, and this version knows {FORMAT}: use the version "
            "that wrote it, or a newer one."
        )
    return Written(**found)


@dataclass(frozen=True)
class SparkSide:
    """What the checkpoint's own part says.

    planned, committed: the newest batch that has offsets, and that is done; None before the first.
    offsets_of: the offsets of a planned batch, as `Planned.said`.
    """

    query: str
    planned: int | None
    committed: int | None
    offsets_of: Callable[[int], str]


ANEW: Final = (
    "To start over instead, give a new --checkpoint and a new --outbox: the sources are then read from "
    "--starting on, and the target gets once more what it may have already."
)


def check_outbox(newest: Written | None, transform: str, spark: SparkSide, place: str) -> None:
    """Raises Refused where the outbox's newest batch and the checkpoint do not belong together."""
    if newest is None:
        if spark.committed is not None:
            raise Refused(
                f"The checkpoint has done {spark.committed + 1} batches, and the outbox {place} has none: "
                "it is "
                f"gone, and with it what was not published. Bring it back. {ANEW}"
            )
        return
    if newest.transform != transform or newest.query != spark.query:
        raise Refused(
            f"The outbox {place} has batches of another checkpoint (query {newest.query}, this one is "
            f"{spark.query or 'new'}): batches are numbered from 0 in each, and the table takes each number "
            f"once. Give the checkpoint that belongs to it. {ANEW}"
        )
    if spark.planned is None or spark.planned < newest.batch:
        raise Refused(
            f"The checkpoint is older than its outbox {place}: it has planned batch "
            f"{'none' if spark.planned is None else spark.planned}, and the outbox has batch "
            f"{newest.batch}. It "
            f"was restored from a copy. Bring back the newest one. {ANEW}"
        )
    if spark.committed is not None and spark.committed > newest.batch:
        raise Refused(
            f"The outbox {place} is older than its checkpoint: it has batch {newest.batch}, and the "
            "checkpoint "
            f"holds {spark.committed} for done. What lay between may not be published. Bring back the newest "
            f"outbox. {ANEW}"
        )
    if spark.offsets_of(newest.batch) != newest.offsets:
        raise Refused(
            f"Batch {newest.batch} of the outbox {place} was made of other offsets than the checkpoint has "
            "for "
            "it: the checkpoint was restored from a copy and has gone on since. Bring back the newest one. "
            f"{ANEW}"
        )
