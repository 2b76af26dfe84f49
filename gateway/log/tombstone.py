"""The note in the catalog that a segment has left its chain, and is to be deleted."""

from collections.abc import Sequence
from typing import Any

from gateway.catalog import keys


def put_tombstone(
    puts: dict[str, bytes], address: str, log: str, epoch: int, members: Sequence[str], **more: Any
) -> None:
    """Put it down in a transaction. `log` is the partition's name for stores ("": not known), `epoch` the
    segment's own (-1: not known), `members` are asked to delete it, `more` is what that waits for.
    """
    value = {"members": members, "log": log, "epoch": epoch}
    puts[keys.segment_tombstone_key(address)] = keys.pack(value | more)
