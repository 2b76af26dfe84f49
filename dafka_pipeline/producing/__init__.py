"""Records out of Spark frames into Kafka, each exactly once, with their timestamps.

`Publisher.publish(frame)` sends the rows of a frame. Every record carries one header more than its row:
the stream's id and the row's position. So **progress is the last own record in the target**: whoever goes
on, in whatever process, reads the target's tail and sends what lies behind it. Shared by `replay` and by
the outbox of `transform`.
"""

from dafka_pipeline.producing.plan import (
    COLUMNS,
    POSITION_HEADER,
    SPARK_SETTINGS,
    Plan,
    Published,
    Sent,
    Timing,
)
from dafka_pipeline.producing.positions import Position
from dafka_pipeline.producing.publisher import Publisher
from dafka_pipeline.producing.tail import Tail

__all__ = [
    "COLUMNS",
    "POSITION_HEADER",
    "SPARK_SETTINGS",
    "Plan",
    "Position",
    "Published",
    "Publisher",
    "Sent",
    "Tail",
    "Timing",
]
