"""How values are read: JSON or Avro, by a schema in a file. What cannot be read says why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import UsageFailure

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JSON, AVRO, CONFLUENT_AVRO = "json", "avro", "confluent-avro"
FORMATS: Final = (JSON, AVRO, CONFLUENT_AVRO)
CONFLUENT_HEADER_BYTES: Final = 5
"""A zero and the number of a schema, before the Avro data, as Confluent's serializers write them."""
UNREADABLE: Final = "_unreadable"


@dataclass(frozen=True)
class Format:
    """A kind and the text of its schema: Spark's DDL or JSON for `json`, an Avro schema for the others."""

    kind: str
    schema: str

    @property
    def needs_avro(self) -> bool:
        return self.kind != JSON


def parse_format(text: str) -> Format:
    """`json:FILE`, `avro:FILE` or `confluent-avro:FILE`. Raises UsageFailure."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in FORMATS:
        raise UsageFailure(f"--decode {text}: give one of {', '.join(f'{one}:FILE' for one in FORMATS)}.")
    try:
        schema = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFailure(f"--decode {text}: {name} cannot be read as text ({error}).") from error
    if kind != JSON or schema.startswith("{"):
        try:
            json.loads(schema)
        except ValueError as error:
            raise UsageFailure(f"--decode {text}: {name} is no JSON: {error}.") from error
    return Format(kind, schema)


def decoded(rows: DataFrame, how: Format) -> DataFrame:
    """`rows` of an archive with `value` decoded, and `reason`: why it could not be, null where it could.

    A null value stays null: it is a tombstone, and no mistake. Raises UsageFailure for a schema that Spark
    refuses.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sql

    try:
        value, reason = _json(how) if how.kind == JSON else _avro(how)
        there = sql.col("value").isNotNull()
        made = rows.withColumn("decoded", sql.when(there, value))
        made = made.withColumn("reason", sql.when(there, reason))
        if how.kind != JSON:
            return made
        return made.withColumn("decoded", made["decoded"].dropFields(UNREADABLE))
    except (PySparkException, ValueError) as error:
        raise UsageFailure(f"--decode: Spark refuses the schema: {str(error).splitlines()[0]}") from error


def _json(how: Format) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructType

    schema = (
        StructType.fromJson(json.loads(how.schema))
        if how.schema.startswith("{")
        else StructType.fromDDL(how.schema)
    )
    schema = StructType([*schema.fields]).add(UNREADABLE, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE}
    value = sql.from_json(sql.col("value").cast("string"), schema, options)
    reason = (
        sql.when(~sql.is_valid_utf8(sql.col("value").cast("string")), sql.lit("it is not UTF-8"))
        .when(sql.col("decoded").isNull(), sql.lit("it is no JSON object"))
        .when(sql.col("decoded")[UNREADABLE].isNotNull(), sql.lit("it is no JSON of the schema"))
    )
    return value, reason


def _avro(how: Format) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql
    from pyspark.sql.avro.functions import from_avro

    data = sql.col("value")
    reason = sql.when(_is_unreadable(how.schema), sql.lit("it is no Avro of the schema"))
    if how.kind == CONFLUENT_AVRO:
        is_header = (sql.octet_length(data) > CONFLUENT_HEADER_BYTES) & (
            sql.substring(data, 1, 1) == sql.lit(b"\0")
        )
        other = sql.lit("it does not begin as Confluent's serializers write it")
        reason = sql.when(~is_header, other).otherwise(reason)
        data = sql.when(is_header, sql.expr(f"substring(value, {CONFLUENT_HEADER_BYTES + 1})"))
    return from_avro(data, how.schema, {"mode": "PERMISSIVE"}), reason


def _is_unreadable(schema: str) -> Column:
    """Spark makes a record of nulls out of what is no Avro: it is one, unless the bytes say just that."""
    from pyspark.sql import functions as sql

    parsed = json.loads(schema)
    fields = parsed.get("fields", []) if isinstance(parsed, dict) else []
    nothing = sql.col("decoded").isNull()
    if not fields:
        return nothing
    all_null = reduce(and_, [sql.col("decoded")[field["name"]].isNull() for field in fields])
    branches = [field["type"] for field in fields]
    if all(isinstance(one, list) and "null" in one for one in branches):
        # A union is the number of its branch, and null is nothing behind it.
        said = bytes(2 * one.index("null") for one in branches)
        all_null &= ~sql.col("value").endswith(sql.lit(said)) | (sql.octet_length("value") > _longest(said))
    return nothing | all_null


def _longest(said: bytes) -> int:
    return len(said) + CONFLUENT_HEADER_BYTES
