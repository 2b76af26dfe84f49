"""What steps of work cost: nanoseconds of processor time, rounded up from what was measured.

Measured with `python -m tests.in_process.loop_stretches` on one core of a virtual machine (AMD EPYC, Python
3.11): the loop's own time between two checkpoints, by the elements that were done in it. They need to be
right within a factor of some, since a turn is far below what anybody notices (`gateway.common.work.TURN`);
none of them is a promise.
"""

from __future__ import annotations

from typing import Final

ELEMENT: Final = 8_000
"""An element of a request that is looked up and answered: a name, a partition, a member. 2,000 for most APIs,
5,000 where each is refused in a sentence of its own (DeleteTopics, CreateAcls)."""

CONFIGS: Final = 100_000
"""A topic or resource whose configs are checked or described one by one: CreateTopics, AlterConfigs,
DescribeConfigs."""

DECODED_KIB: Final = 40_000
"""A KiB of a request that is decoded into objects on the loop: 15,000 for a Fetch, 35,000 for elements of two
bytes each."""

PRODUCED_BATCH: Final = 10_000
"""A batch that is checked and appended, or refused: 8,000 with the smallest one."""

RECORD: Final = 350
"""A record of it that is looked through: 100 to 350 compiled, 900 in Python, and 3,000 where it is named as
well."""

PRODUCED_KIB: Final = 400
"""A KiB of it, for its CRC and a copy: 100 of a batch of 1 MiB, 300 where it is copied out of its frame."""

LOADED_GROUP: Final = 20_000
"""A group that is taken over from the log."""

LOADED_MEMBER: Final = 5_000
"""A member of it: 3,600."""
