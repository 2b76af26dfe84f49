"""How many elements of one request are answered at most."""

from typing import Final

from wireproto.kafka.errors import MalformedRequest

MAX_ELEMENTS: Final = 50_000
"""Elements of one request that are each answered: more than all topics and partitions that there may be. The
8 MiB that a request may have hold millions of empty names, and the answer to each takes half a kilobyte."""

MAX_TOPICS: Final = 20_000
"""Topics that a Metadata may name: as many as there may be. They are looked at together, to see whether the
answer is known already."""

MAX_CHANGED: Final = 10_000
"""Topics or features that one request may change: they are looked at together, to find those that are named
twice.
Kafka's own bound is about the same (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""

MAX_CONFIGS: Final = 20_000
"""Configs of one resource that a request may change, looked at together likewise. There are not a hundred."""


def check_elements(count: int, what: str, most: int = MAX_ELEMENTS) -> None:
    """Whether a request may ask for so many. Raises MalformedRequest: the connection is closed."""
    if count > most:
        raise MalformedRequest(f"{count} {what} in one request, more than {most}")
