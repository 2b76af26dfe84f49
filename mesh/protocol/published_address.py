"""Under which address the values of a partition are native records: one for good, and nobody else's.

It begins as the addresses of this project's producers do (`mesh.protocol.native_resends`), and goes on as no
producer's does. Stores take no records under such an address: they have them, in the partition's segments.
"""

from typing import Final

from mesh.protocol.native_resends import OURS

PUBLISHED: Final = OURS + "afka-topic-"


def published_address(topic_id: bytes, partition: int) -> str:
    """Of one partition of the topic with this id (16 bytes)."""
    return f"{PUBLISHED}{topic_id.hex()}-{partition}"


def is_published(address: str) -> bool:
    """Whether a partition's values are what is under this address."""
    return address.startswith(PUBLISHED)
