"""CRC32C against the vectors of RFC 3720 B.4, and over views and piece borders against a bitwise one."""

import pytest

from wireproto.records.crc import COPY_PIECE_BYTES, crc32c


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_vectors(data: bytes, checksum: int) -> None:
    for form in (data, bytearray(data), memoryview(data), memoryview(b"x" + data + b"y")[1 : 1 + len(data)]):
        assert crc32c(form) == checksum


def bitwise(data: bytes) -> int:
    register = 0xFFFFFFFF
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    for byte in data:
        register = register >> 8 ^ table[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    "size", [COPY_PIECE_BYTES - 1, COPY_PIECE_BYTES, COPY_PIECE_BYTES + 1, 2 * COPY_PIECE_BYTES + 3]
)
def test_views_around_the_piece_size(size: int) -> None:
    data = bytes(index * 7 % 251 for index in range(size))
    assert crc32c(memoryview(bytearray(data))) == bitwise(data)
