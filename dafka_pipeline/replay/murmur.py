"""Java's partitioner in Spark's SQL: which partition a key goes to, computed without leaving the JVM."""

from __future__ import annotations

from typing import Final

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
MASK: Final = 0xFFFFFFFF


def murmur2_sql(key: str) -> str:
    """Kafka's murmur2 of a BINARY expression as a BIGINT without sign, with its highest bit.

    Every product is of a number below 2^32 and M, so below 2^63: no overflow, which Spark would not forgive.
    """
    size = f"length({key})"
    whole = f"{size} div 4"
    places = f"IF({size} < 4, CAST(array() AS ARRAY<BIGINT>), sequence(0L, {whole} - 1))"
    words = f"transform({places}, i -> {_number(f'substring({key}, CAST(4 * i + 1 AS INT), 4)')})"
    # The bytes turned round.
    little = f"{_up('w & 255', 24)} | {_up('w & 65280', 8)} | ({_down('w', 8)} & 65280) | {_down('w', 24)}"
    multiplied = f"transform({words}, w -> {_times(f'({little})')})"
    mixed_word = _times(f"(k ^ {_down('k', 24)})")
    mixed = f"transform({multiplied}, k -> {mixed_word})"
    start = f"(CAST({SEED} AS BIGINT) ^ CAST({size} AS BIGINT))"
    body = f"aggregate({mixed}, {start}, (h, k) -> {_times('h')} ^ k)"
    return _finished(_with_tail(body, key, size))


def partition_sql(key: str, partitions: str, spread: str) -> str:
    """The partition of a key; of a null key, which has none in Kafka, by the number `spread`."""
    by_key = f"({murmur2_sql(key)} & {0x7FFFFFFF}) % {partitions}"
    return f"CAST(IF({key} IS NULL, pmod({spread}, {partitions}), {by_key}) AS INT)"


def _number(expression: str) -> str:
    """Up to four bytes as a number, the first one highest."""
    return f"CAST(conv(hex({expression}), 16, 10) AS BIGINT)"


def _times(expression: str) -> str:
    return f"(({expression} * {M}) & {MASK})"


def _up(expression: str, bits: int) -> str:
    return f"shiftleft({expression}, {bits})"


def _down(expression: str, bits: int) -> str:
    return f"shiftright({expression}, {bits})"


def _let(value: str, name: str, expression: str) -> str:
    """The expression with a name for a value that it uses more than once."""
    return f"transform(array({value}), {name} -> {expression})[0]"


def _with_tail(body: str, key: str, size: str) -> str:
    rest = _number(f"substring({key}, CAST(4 * ({size} div 4) + 1 AS INT), 3)")
    tail = (
        f"CASE {size} % 4 WHEN 1 THEN t WHEN 2 THEN {_up('t & 255', 8)} | {_down('t', 8)} "
        f"ELSE {_up('t & 255', 16)} | (t & 65280) | {_down('t', 16)} END"
    )
    added = _let(rest, "t", _times(f"(b ^ ({tail}))"))
    return _let(body, "b", f"IF({size} % 4 = 0, b, {added})")


def _finished(body: str) -> str:
    mixed = _let(body, "x", _times(f"(x ^ {_down('x', 13)})"))
    return _let(mixed, "y", f"y ^ {_down('y', 15)}")
