"""How many elements of one request are answered at most."""

from typing import Final

from wireproto.kafka.errors import MalformedRequest

MAX_ELEMENTS: Final = 50_000
"""Elements of one request that are each answered: more than all topics and partitions that there may be. The
8 MiB that a request may have hold millions of empty names, and the answer to each takes half a kilobyte."""

MAX_CHANGED: Final = 20_000
"""The same of requests that change topics, and look at all of them together first: as many as there may
be."""


def check_elements(count: int, what: str, most: int = MAX_ELEMENTS) -> None:
    """Whether a request may ask for so many. Raises MalformedRequest: the connection is closed."""
    if count > most:
        raise MalformedRequest(f"{count} {what} in one request, more than {most}")
