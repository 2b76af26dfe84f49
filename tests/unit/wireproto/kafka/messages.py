"""Hypothesis strategies for kafka-python's message objects, made from their schemas."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from wireproto.kafka.schemas import REQUEST_CLASSES, schema_versions


def versions_of(api_key: int) -> range:
    low, high = schema_versions(api_key) or (0, -1)
    return range(low, high + 1)


#: Every (API key, version) of a request that has a schema.
ALL_VERSIONS = [(key, version) for key in sorted(REQUEST_CLASSES) for version in versions_of(key)]


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


_TEXT = st.one_of(st.text(max_size=8), st.just("é" * 100))  # the second has a length of two varint bytes
_BYTES = st.one_of(st.binary(max_size=8), st.just(bytes(range(256))))

_SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": st.integers(0, 0xFFFF),
    "int32": _integers(32),
    "int64": _integers(64),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": st.one_of(st.none(), st.uuids()),
    "bitfield": st.one_of(st.none(), st.sets(st.integers(0, 30), min_size=1)),
    "string": _TEXT,
    "bytes": _BYTES,
    "records": _BYTES,
}


@cache
def messages(message_class: Any, version: int) -> st.SearchStrategy[Any]:
    """Objects of ``message_class`` with every field of that version set, tags now and then."""
    return _structs(message_class._struct, version, message_class)


def _structs(field: Any, version: int, data_class: Any = None) -> st.SearchStrategy[Any]:
    required = {child.name: _values(child, version) for child in field.untagged_fields(version)}
    optional = {
        child.name: _values(child, version)
        for child in field.fields.values()
        if child.for_version_q(version) and child.tagged_field_q(version)
    }
    build = data_class or field.data_class
    return st.fixed_dictionaries(required, optional=optional).map(
        lambda values: build(version=version, **values)
    )


def _values(field: Any, version: int) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any]
    if field.is_array():
        values = st.lists(_elements(field.array_of, version), max_size=3)
    else:
        values = _elements(field, version)
    return st.one_of(st.none(), values) if field.nullable_for_version_q(version) else values


def _elements(field: Any, version: int) -> st.SearchStrategy[Any]:
    return _structs(field, version) if field.is_struct() else _SIMPLE[field.type_str]


#: What hostile or broken clients put where a length, a count or a marker belongs.
_NASTY = [
    bytes.fromhex(text)
    for text in ("00", "ff", "01", "7f", "80", "ffff", "7fffffff", "80000000", "ffffffff0f")
]


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """``data`` with a few bytes overwritten, put in or taken out."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(changed)))
        replaced = draw(st.sampled_from([0, 0, 1, 1, 2, 4]))
        new = draw(st.one_of(st.sampled_from(_NASTY), st.binary(max_size=3)))
        changed[start : start + replaced] = new
    return bytes(changed)
