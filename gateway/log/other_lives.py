"""What an OPEN finds at the stores of gateway lives that the catalog knows nothing of.

A store that takes an OPEN seals what other lives have open of the same log, and names it. Such a segment is
known to the catalog, as long as any store keeps it: it came into the catalog before the first store heard of
it, and leaves it when the last one has deleted it. So one that is not known was opened by a gateway on
another copy of this catalog: one of both is behind the other, and whatever is given now may be given already.

Rule: what a store names is judged when it says so, and not again when another store answers, which may be an
hour later: what was to be deleted then is deleted by now, and the catalog has forgotten it.
"""

from typing import TYPE_CHECKING

from gateway.catalog import keys
from gateway.log.recovery.verification import RESTORE

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from mesh.protocol.opening import Opening


def what_is_unknown(context: "LogContext", partition: "Partition", opening: "Opening") -> str:
    """Which segment that stores have sealed because of this opening the catalog does not know, and what to
    do; "" if it knows all of them. What was judged is taken from the opening.
    """
    while opening.sealed:
        member, sealed = opening.sealed.popitem()
        for address, head in sealed:
            if not partition.chain.holds(address) and not _is_known(context, partition, address):
                has = "without a record" if head < 0 else f"with records up to sequence {head}"
                return (
                    f"the catalog is older than store {context.stores.name(member)}, or another gateway went "
                    f"on from a copy of it: the store has segment {address} of this log, {has}, and the "
                    f"catalog does not know it; {RESTORE}"
                )
    return ""


def _is_known(context: "LogContext", partition: "Partition", address: str) -> bool:
    """Whether the catalog has it in the log's chain, among its notes, or among what is to be deleted, or had
    when it was exported, or until this life has had it deleted.
    """
    if address in context.deleted:
        return True
    catalog = context.catalog
    notes = keys.compacting_key(address), keys.closing_key(address), keys.segment_tombstone_key(address)
    if any(catalog.get(key) is not None for key in (*notes, keys.left_over_key(address))):
        return True
    chain = keys.partition_segments(partition.topic.id, partition.index)
    return any(entry.key.endswith(f"-{address}") for entry in catalog.range(chain))
