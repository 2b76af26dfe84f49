"""The entries of requests about one address, for tests that do not look at what they carry besides."""

from wireproto.dafka.additions import CloseEntry, Copy, DeleteEntry, OpenEntry, SealEntry

LATER_EPOCH = 1_000_000
"""Above all that tests announce: a SEAL of it is of a later round."""


def entry_of(message_id: bytes, address: str, sequence: int = -1) -> bytes:
    """An entry of a SEAL, CLOSE (with `sequence` as the end) or DELETE."""
    if message_id == b"S":
        return SealEntry(address, LATER_EPOCH).pack()
    if message_id == b"C":
        return CloseEntry(address, sequence).pack()
    return DeleteEntry(address).pack()


def address_of(message_id: bytes, entry: bytes) -> str:
    """Which address an entry of an OPEN, SEAL, CLOSE, DELETE or COPY is about."""
    if message_id == b"O":
        return OpenEntry.unpack(entry).address
    if message_id == b"Y":
        return Copy.unpack(entry).address
    if message_id == b"S":
        return SealEntry.unpack(entry).address
    return CloseEntry.unpack(entry).address if message_id == b"C" else DeleteEntry.unpack(entry).address
