"""Strict request decoders, made from kafka-python's schemas: one flat Python function per API and version.

Theory of operation. :func:`compile_decoder` walks the schema once and writes the source of a function that
reads the fields in order into kafka-python's data containers. A flat function costs a third of nested
closures, and Metadata and ListOffsets are asked for at every poll. The source is made from the schema and
nothing else: no byte that a client sent ever gets into it.

Why it is safe on hostile bytes:

* ``pos`` only grows. A length that reaches beyond the end makes the next read fail, or the caller's check
that the request ends where its bytes end; a slice beyond the end allocates nothing. * Every array's count
passes :func:`~wireproto.kafka.primitives.spend` before its loop begins, so all loops of a request together
run at most ``MAX_REQUEST_ELEMENTS`` times; tagged fields count as elements. * Varints have at most five
bytes, lengths below -1 are refused, and so is null where the schema does not allow it. * A tagged field
must end where its size says.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NoReturn
from uuid import UUID

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import MAX_REQUEST_ELEMENTS, MAX_STRING_BYTES, read_uvarint, spend

_FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
"""Struct letters of the types with a fixed size. A uuid is read as 16 bytes and converted."""
_BYTES_TYPES: Final = ("bytes", "records")

Decoder = Callable[[bytes | memoryview, int], tuple[Any, int]]
"""`decode(data, pos)` gives the request and the position behind it."""

_TagReader = tuple[str, Callable[[bytes | memoryview, int, int], tuple[Any, int, int]]]
"""A tagged field: its name and `read(data, pos, budget)`, which gives value, position and rest of the budget.
"""


def compile_decoder(message_class: Any, version: int) -> Decoder:
    """The decoder of a kafka-python request class at one version, which has to be one of the schema's."""
    writer = _Writer(version, message_class.flexible_version_q(version))
    top = writer.bind(message_class)
    writer.line(f"value = new({top})")
    writer.line("value._header = value._min_version = value._max_version = None")
    writer.struct_fields(message_class._struct, "value")
    name = f"{message_class.name}_v{version}"
    decode: Decoder = writer.finish(name, ["data", "pos"], [f"budget = {MAX_REQUEST_ELEMENTS}"], "value, pos")
    return decode


def uuid_or_none(raw: bytes) -> UUID | None:
    """kafka-python's value for a uuid: ``None`` for the zero uuid, which is Kafka's "not given"."""
    return UUID(bytes=raw) if any(raw) else None


def refuse_null(name: str) -> NoReturn:
    """A null where the schema has none."""
    raise MalformedRequest(f"{name} is null")


def refuse_length(name: str, length: int) -> NoReturn:
    """A length or count below -1, or a null marker that is neither null nor present."""
    raise MalformedRequest(f"{name} has length {length}")


def read_tags(
    data: bytes | memoryview, pos: int, budget: int, value: Any, known: dict[int, _TagReader]
) -> tuple[int, int]:
    """Read a tagged-fields section that is not empty into ``value``; unknown tags are passed over.

    As in Kafka their order does not matter, and of two with the same number the last one counts.
    """
    count, pos = read_uvarint(data, pos)
    budget = spend(budget, count, len(data) - pos, 2)
    for _ in range(count):
        tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        end = pos + size
        if end > len(data):
            raise MalformedRequest("a tagged field is longer than the request")
        if tag in known:
            name, read = known[tag]
            field_value, pos, budget = read(data, pos, budget)
            if pos != end:
                raise MalformedRequest(f"tagged field {tag} does not have the size it says")
            setattr(value, name, field_value)
            value.tags = (value.tags or set()) | {name}
        pos = end
    return pos, budget


class _Writer:
    """Writes one function. Each method emits the code that reads what it is named after."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 1
        self.scope: dict[str, Any] = {
            "new": object.__new__,
            "uvarint": read_uvarint,
            "spend": spend,
            "read_tags": read_tags,
            "refuse_null": refuse_null,
            "refuse_length": refuse_length,
            "uuid_or_none": uuid_or_none,
            "int16": Struct(">h").unpack_from,
            "int32": Struct(">i").unpack_from,
            "unpack_many": unpack_many,
        }

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def bind(self, value: Any) -> str:
        """A name in the function's scope for a constant."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def finish(self, name: str, arguments: list[str], first: list[str], result: str) -> Any:
        head = [f"def decode({', '.join(arguments)}):", *("    " + line for line in first)]
        source = "\n".join([*head, *self.lines, f"    return {result}"])
        # The source comes from schemas that ship with kafka-python, never from a peer.
        exec(compile(source, f"<decoder of {name}>", "exec"), self.scope)  # noqa: S102
        return self.scope["decode"]

    def struct(self, field: Any, target: str) -> None:
        self.line(f"{target} = new({self.bind(field.data_class)})")
        self.struct_fields(field, target)

    def struct_fields(self, field: Any, target: str) -> None:
        self.line(f"{target}._version = {self.version}")
        self.line(f"{target}.tags = {target}.unknown_tags = None")
        run: list[Any] = []
        for child in field.untagged_fields(self.version):
            if _is_fixed(child):
                run.append(child)
                continue
            self.fixed_run(run, target)
            run = []
            self.field(child, f"{target}.{child.name}")
        self.fixed_run(run, target)
        if self.flexible:
            self.tags(field, target)

    def fixed_run(self, run: list[Any], target: str) -> None:
        """Neighbours of fixed size, by one unpack."""
        if not run:
            return
        layout = Struct(">" + "".join(_FIXED[child.type_str] for child in run))
        targets = "".join(f"{target}.{child.name}, " for child in run)
        self.line(f"{targets}= {self.bind(layout.unpack_from)}(data, pos)")
        self.line(f"pos += {layout.size}")
        for child in run:
            if child.type_str == "uuid":
                self.line(f"{target}.{child.name} = uuid_or_none({target}.{child.name})")

    def field(self, field: Any, target: str) -> None:
        if field.is_array():
            self.array(field, target)
        elif field.is_struct():
            self.nested_struct(field, target)
        elif _is_fixed(field):
            layout = Struct(">" + _FIXED[field.type_str])
            self.line(f"{target}, = {self.bind(layout.unpack_from)}(data, pos)")
            self.line(f"pos += {layout.size}")
            if field.type_str == "uuid":
                self.line(f"{target} = uuid_or_none({target})")
        else:
            self.string_or_bytes(field, target)

    def string_or_bytes(self, field: Any, target: str) -> None:
        is_bytes = field.type_str in _BYTES_TYPES
        if not is_bytes and field.type_str != "string":
            raise NotImplementedError(f"{field.name} is a {field.type_str}, which no decoder reads yet")
        self.length(field, target, "int32" if is_bytes else "int16", 4 if is_bytes else 2)
        if self.flexible and not is_bytes:
            self.line(f"    if n > {MAX_STRING_BYTES}: refuse_length({field.name!r}, n)")
        self.line("    end = pos + n")
        self.line(
            f"    {target} = " + ("bytes(data[pos:end])" if is_bytes else "str(data[pos:end], 'utf-8')")
        )
        self.line("    pos = end")

    def length(self, field: Any, target: str, prefix: str, prefix_size: int) -> None:
        """Read a length or count into ``n``; what follows goes under the ``else`` that this ends with."""
        if self.flexible:
            self.line("n = data[pos]")
            self.line("if n < 128: pos += 1")
            self.line("else: n, pos = uvarint(data, pos)")
            self.line("n -= 1")
        else:
            self.line(f"n, = {prefix}(data, pos)")
            self.line(f"pos += {prefix_size}")
        self.line("if n < 0:")
        if not self.flexible:
            self.line(f"    if n != -1: refuse_length({field.name!r}, n)")
        if field.nullable_for_version_q(self.version):
            self.line(f"    {target} = None")
        else:
            self.line(f"    refuse_null({field.name!r})")
        self.line("else:")

    def array(self, field: Any, target: str) -> None:
        element = field.array_of
        self.length(field, target, "int32", 4)
        self.depth += 1
        self.line(f"budget = spend(budget, n, len(data) - pos, {self.smallest(element)})")
        if _is_fixed(element) and element.type_str != "uuid":
            letter, size = _FIXED[element.type_str], self.smallest(element)
            self.line(f"{target} = unpack_many({letter!r}, n, data, pos)")
            self.line(f"pos += {size} * n")
        else:
            item, items = f"item{self.depth}", f"items{self.depth}"
            self.line(f"{items} = {target} = []")
            self.line("for _ in range(n):")
            self.depth += 1
            if element.is_struct():
                self.struct(element, item)
            else:
                self.field(_NotNull(element), item)
            self.line(f"{items}.append({item})")
            self.depth -= 1
        self.depth -= 1

    def nested_struct(self, field: Any, target: str) -> None:
        """A struct as a field. If it may be null, a byte says so: -1 or 1 (KIP-893)."""
        if not field.nullable_for_version_q(self.version):
            self.nested_struct_body(field, target)
            return
        self.line("n = data[pos]")
        self.line("pos += 1")
        self.line("if n == 255:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"if n != 1: refuse_length({field.name!r}, n)")
        self.nested_struct_body(field, target)
        self.depth -= 1

    def nested_struct_body(self, field: Any, target: str) -> None:
        item = f"struct{self.depth}"
        self.struct(field, item)
        self.line(f"{target} = {item}")

    def tags(self, field: Any, target: str) -> None:
        known = {
            child.tag: (child.name, self.tag_reader(child))
            for child in field.fields.values()
            if child.for_version_q(self.version) and child.tagged_field_q(self.version)
        }
        self.line("if data[pos] == 0: pos += 1")
        self.line(f"else: pos, budget = read_tags(data, pos, budget, {target}, {self.bind(known)})")

    def tag_reader(self, field: Any) -> Any:
        writer = _Writer(self.version, flexible=True)
        writer.field(field, "value")
        return writer.finish(f"tag {field.name}", ["data", "pos", "budget"], [], "value, pos, budget")

    def smallest(self, field: Any) -> int:
        """The fewest bytes that a value of this field takes: what an element costs at least."""
        if field.is_struct() and not field.is_array():
            children = field.untagged_fields(self.version)
            return sum(self.smallest(child) for child in children) + self.flexible
        if _is_fixed(field):
            return Struct(">" + _FIXED[field.type_str]).size
        if self.flexible:
            return 1
        return 2 if field.type_str == "string" else 4


def unpack_many(letter: str, count: int, data: bytes | memoryview, pos: int) -> list[Any]:
    """``count`` numbers of one type, already known to be there."""
    return list(Struct(f">{count}{letter}").unpack_from(data, pos))


def _is_fixed(field: Any) -> bool:
    return field.type_str in _FIXED and not field.is_array() and not field.is_struct()


class _NotNull:
    """A string in an array:

    The array's ``nullableVersions`` speak of the array, its elements are never null.
    """

    def __init__(self, field: Any) -> None:
        self.name = field.name
        self.type_str = field.type_str

    def is_array(self) -> bool:
        return False

    def is_struct(self) -> bool:
        return False

    def nullable_for_version_q(self, _: int) -> bool:
        return False
