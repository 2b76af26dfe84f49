"""The example that Spark ships, unmodified, by spark-submit."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
import pytest

from tests.clients.stored import put
from tests.differential.batches import Record
from tests.peers.requirements import require
from tests.spark.program import Program
from tests.spark.settings import spark_settings

pytestmark = pytest.mark.slow
HOME = Path(pyspark.__file__).parent
EXAMPLE = HOME / "examples/src/main/python/sql/streaming/structured_kafka_wordcount.py"
ROW = re.compile(r"^\|\s*(\S+)\|\s*(\d+)\|$", re.MULTILINE)


def last_table(text: str) -> dict[str, int]:
    """The last whole table that the console sink printed."""
    _, _, last = text.rpartition("Batch: ")
    return {word: int(count) for word, count in ROW.findall(last)} if last.count("+---") >= 3 else {}


def test_structured_kafka_wordcount(bootstrap: str, topic: str, tmp_path: Path) -> None:
    require("java")
    options = [f"--conf={name}={value}" for name, value in spark_settings(tmp_path).items()]
    command = [str(HOME / "bin" / "spark-submit"), *options, str(EXAMPLE), bootstrap, "subscribe", topic]
    with Program(command, tmp_path / "output") as program:
        program.wait_until(lambda: "Batch: 0" in program.text)
        put(bootstrap, topic, [Record(b"the cat the dog"), Record(b"the end")], codec="gzip")
        program.wait_until(lambda: last_table(program.text) == {"the": 3, "cat": 1, "dog": 1, "end": 1})
        put(bootstrap, topic, [Record(b"end of the cat")])
        expected = {"the": 4, "cat": 2, "dog": 1, "end": 2, "of": 1}
        program.wait_until(lambda: last_table(program.text) == expected)
