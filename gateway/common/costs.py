"""What steps of work are charged: nanoseconds of processor time.

Only roughly right. DECODED_KIB, PRODUCED_BATCH, PRODUCED_KIB, CONFIGS, COLD_READ, COLD_BATCH, LOADED_GROUP
and LOADED_TRANSACTION are estimates; ELEMENT and LOADED_MEMBER are rounded up from runs of one machine, by
the loop's own time divided by the elements done in it (`python -m tests.in_process.loop_stretches` prints
both sums beside each other); RECORD is what `wireproto.records.walk` was measured at. They need to be right
within a factor of some, no more.
"""

from __future__ import annotations

from typing import Final

ELEMENT: Final = 8_000
"""An element of a request that is looked up and answered: a name, a partition, a member. 2,000 to 5,000 for
most APIs."""

COUNTED: Final = 2_000
"""An element of a request that counts them: Fetch, ListOffsets, OffsetCommit."""

REQUEST: Final = 50_000
"""A request, beside what its steps cost: to receive it, to find its way, to write its answer."""

SENT_KIB: Final = 500
"""A KiB of an answer that the kernel takes."""

CONNECTION_END: Final = 80_000
"""A connection that ends; what its client asks for next waits for that."""

MATCHED_ACL: Final = 1_000
"""An ACL that is compared with a filter: 500 to 900."""

CONFIGS: Final = 100_000
"""A topic or resource whose configs are checked or described one by one: CreateTopics, AlterConfigs,
DescribeConfigs."""

DECODED_KIB: Final = 40_000
"""A KiB of a request that is decoded into objects on the loop."""

PRODUCED_BATCH: Final = 30_000
"""A batch that is checked, appended, and published in the same stretch; a third of it if it is refused."""

LOOKED: Final = 500
"""A topic or partition of a Produce that is looked at for what has to be waited for: 250 to 500."""

RECORD: Final = 350
"""A record of it that is looked through: 100 to 350 compiled, 900 in Python."""

NAMED_RECORD: Final = 3_000
"""A record of it that is refused and named in the answer. How many there are is known only afterwards."""

HEADER: Final = 250
"""A header of such a record. How many there are is known only afterwards."""

PRODUCED_KIB: Final = 400
"""A KiB of it, for its CRC and a copy."""

HOT_BATCH: Final = 400
"""A batch that is answered from memory, a buffer of its own: how many there are is known only afterwards."""

COLD_READ: Final = 200_000
"""A range that is read from a store, beside its batches."""

COLD_BATCH: Final = 8_000
"""A batch of it, which is received, checked and cut. How many there are is known only afterwards."""

LOADED_GROUP: Final = 20_000
"""A group that is taken over from the log."""

LOADED_TRANSACTION: Final = 20_000
"""A transactional id that is taken over from the log, beside its partitions, which are COUNTED."""

TRANSACTION_PARTITION: Final = 1_500
"""A partition of a transaction, all of which are written anew with each change."""

HASHED_CHARACTER: Final = 100
"""A character of a key whose partition is looked for: 60."""

LOADED_MEMBER: Final = 5_000
"""A member of it: 3,600."""
