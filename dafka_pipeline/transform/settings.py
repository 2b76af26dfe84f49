"""What a transform was asked to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dafka_pipeline.table.location import Location
from dafka_pipeline.transform.binding import AT_LEAST_ONCE, EXACTLY_ONCE

EVERY_SECONDS: Final = 10.0
"""Between two looks at the source. Spark's own default looks every 10 ms, which is some 100 requests a second
when nothing comes; each look is about five."""
OUTBOX: Final = "outbox"
LOCK: Final = "dafka.lock"


@dataclass(frozen=True)
class TransformSettings:
    """A transform.

    every_seconds: between two batches; None for what is there now, then an end.
    max_offsets: of one batch, 0 for no limit.
    starting: `earliest` or `latest`, for the very first start alone.
    outbox: where exactly-once keeps what is to be published.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    checkpoint: Location
    function: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    delivery: str = AT_LEAST_ONCE
    output_mode: str = "append"
    outbox: Location | None = None
    every_seconds: float | None = EVERY_SECONDS
    max_offsets: int = 0
    starting: str = "earliest"
    skip_lost: bool = False
    accept_change: bool = False
    create_partitions: int = 0

    @property
    def exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE

    @property
    def outbox_place(self) -> Location | None:
        """Where the outbox is; None for a delivery without one."""
        if not self.exactly_once:
            return None
        return self.outbox or self.checkpoint / OUTBOX
