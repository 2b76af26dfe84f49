"""Records that a restore appends to a log, as batches."""

from collections.abc import Sequence

from wireproto.records.builder import RecordFields, build_batch


def batched(
    records: Sequence[RecordFields], in_batch: int, base_offset: int, leader_epoch: int
) -> list[bytes]:
    """Batches of `in_batch` records at most, of a log that goes on at `base_offset`."""
    return [
        build_batch(
            records[start : start + in_batch], base_offset=base_offset + start, leader_epoch=leader_epoch
        )
        for start in range(0, len(records), in_batch)
    ]
