"""Packages of which single modules are imported run no more than these, until somebody wants the whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

ONLY_MODULES = """
import sys
import wireproto.kafka.schemas, wireproto.records.compiled
assert wireproto.records.compiled.DefaultRecordBatch is not None
unused = {"kafka.admin", "kafka.net", "kafka.producer", "aiokafka.client", "aiokafka.producer", "asyncio"}
assert not unused & set(sys.modules), unused & set(sys.modules)
"""


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_only_the_modules_that_are_used_are_imported() -> None:
    run(ONLY_MODULES)


@pytest.mark.parametrize(
    "use",
    [
        "from kafka import KafkaProducer; print(KafkaProducer.__module__)",
        "import kafka; print(kafka.KafkaProducer.__module__)",
        "import kafka.producer.kafka as one; print(one.KafkaProducer.__module__)",
        "import kafka; kafka.__version__; print(kafka.protocol.__name__ and 'kafka.producer.kafka')",
    ],
)
def test_the_whole_package_is_there_for_who_uses_it_afterwards(use: str) -> None:
    assert run(ONLY_MODULES + use) == "kafka.producer.kafka"
    assert run("import kafka\n" + use + "\nimport wireproto.kafka.schemas") == "kafka.producer.kafka"


def test_the_other_package_likewise() -> None:
    assert run(ONLY_MODULES + "from aiokafka import AIOKafkaProducer as one; print(one.__name__)") == (
        "AIOKafkaProducer"
    )


def test_what_a_package_does_not_have_is_an_error_as_ever() -> None:
    run(ONLY_MODULES + "import kafka\nassert not hasattr(kafka, 'nothing_of_the_kind')")


@pytest.mark.parametrize("package", ["not_a_package_at_all", "not_a_package_at_all.part"])
def test_a_package_that_is_not_there_is_an_error_where_it_is_imported(package: str) -> None:
    run(
        f"from wireproto.put_off import put_off\nput_off('{package}')\n"
        f"try:\n    import {package}\nexcept ModuleNotFoundError:\n    pass\n"
        "else:\n    raise AssertionError"
    )
