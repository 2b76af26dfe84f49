"""The store's keys in RocksDB.

A key is a letter, the length of the name, the name, and for records and rows the sequence in eight bytes, so
that one address's records lie together in order, and no name can run into another, as it can in the C store.
"""

import struct

FORMAT = 4
"""Version of everything below and of the values. From 2 on a database has it in itself (`FORMAT_KEY`), with
its incarnations, its commit number and its starts; one of version 1 is taken over once. From 3 on metas say
what was told of an address last, and a log's list says which segments have ended; what version 2 wrote is
read as it is, and written anew where it changes. From 4 on the write-ahead log is our own."""
OWN_LOG_FORMAT = 4
"""From this one on."""

_SEQUENCE = struct.Struct(">Q")

CLUSTER_ID = b"i\x07cluster"
NATIVE_WANTED = b"i\x06wanted"
"""Which topics take up native records: `mesh.protocol.native_wanted`."""
NATIVE_LISTED = b"i\x06native"
"""There once every native address has its `native_key`: stores did not always write them."""
FORMAT_KEY = b"i\x06format"
INCARNATIONS = b"i\x0cincarnations"
"""Every incarnation that the database was, the latest last."""
COMMIT = b"i\x06commit"
"""The number of the last write: in each of them, one more than in the one before."""
STARTS = b"i\x06starts"
"""`mesh.protocol.starts`; written at a start only."""


RECORDS = b"m"
"""The letter of an address's records."""


def name_key(letter: bytes, name: str) -> bytes:
    data = name.encode()
    return b"%b%c%b" % (letter, len(data), data)


def meta_key(address: str) -> bytes:
    """Phase, end and announcement of an address."""
    return name_key(b"a", address)


def head_key(address: str) -> bytes:
    """The head of an address: written in every commit that extends it."""
    return name_key(b"h", address)


EPOCHS = b"e"
"""What the keys of all logs' epochs start with."""


def epoch_key(log: str) -> bytes:
    """The highest epoch announced for a log, and the life that did. Raises ValueError over 255 bytes."""
    return name_key(EPOCHS, log)


def log_prefix(log: str) -> bytes:
    """What the keys of a log's segments start with. Raises ValueError over 255 bytes."""
    return name_key(b"l", log)


def log_key(log: str, start: int, address: str) -> bytes:
    """There while a segment of a log is kept, with its `phase_value`: they lie in the order of their start
    offsets.
    """
    return log_prefix(log) + sequence_bytes(start) + address.encode()


def phase_value(phase: int) -> bytes:
    """The value of a `log_key`. Version 2 left it empty."""
    return bytes((phase,))


def start_and_address(log: str, key: bytes) -> tuple[int, str]:
    """The start offset and the address in a `log_key`. Raises ValueError, struct.error."""
    at = len(log_prefix(log))
    return _SEQUENCE.unpack_from(key, at)[0], key[at + _SEQUENCE.size :].decode()


def unfinished_key(address: str) -> bytes:
    """There, and empty, while an address may lack records that other stores have."""
    return name_key(b"u", address)


def native_key(address: str) -> bytes:
    """What is kept of a native address: there from its first record on, as nothing else lists them."""
    return name_key(b"n", address)


def record_prefix(address: str) -> bytes:
    """What the keys of an address's records start with; add `sequence_bytes`."""
    return name_key(RECORDS, address)


def row_prefix(address: str) -> bytes:
    """What the keys of an address's rows start with; add `sequence_bytes`."""
    return name_key(b"r", address)


sequence_bytes = _SEQUENCE.pack
"""A sequence in eight bytes."""


def keys_between(prefix: bytes, first: int, last: int) -> list[bytes]:
    """The keys of the records or rows from sequence `first` to `last`."""
    return [prefix + _SEQUENCE.pack(sequence) for sequence in range(first, last + 1)]


def sequence_of(key: bytes) -> int:
    """The sequence in the key of a record or row."""
    number: int = _SEQUENCE.unpack_from(key, len(key) - _SEQUENCE.size)[0]
    return number


def name_of(key: bytes) -> str:
    """The name in a key with a letter and a name. Raises ValueError."""
    return key[2 : 2 + key[1]].decode()


def prefix_end(prefix: bytes) -> bytes:
    """The first key after every key with this prefix and a sequence."""
    return prefix + b"\xff" * 9
