"""The commands of the README and of the guides do what the pages say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import click
import pytest

from dafka.cli import dafka
from dafka_pipeline.cli import cli as dafka_pipeline
from tests.docs.commands import Block, Shell, blocks
from tests.docs.constants_page import ROOT
from tests.docs.site import pages
from tests.peers.java import QUIET, SHORT_LIVED, java_command
from tests.peers.maven import connector_jars, kafka_jars, pipeline_jars
from tests.peers.requirements import require
from tests.pipelines.settings import SMALL

INSTALLS = re.compile(r"^(pip|npm|cargo|go|make|apt-get)\b")
"""Commands that bring this or something else, whose results the tests have already."""

SERVER = Block("sh", "dafka standalone --data ./data --group-initial-rebalance-delay-ms 0\n")

TYPED = re.compile(r"^(?:\$ )?(dafka|dafka-pipeline) (.*)$")


def typed(page: Path, section: str = "") -> list[Block]:
    return [block for block in blocks(page, section) if not INSTALLS.match(block.text)]


def check(
    shown: list[Block], folder: Path, tools: Mapping[str, Sequence[str]] | None = None, **environment: str
) -> list[str]:
    """Run the blocks; what the page shows must be what they print."""
    require("kcat")
    printed = Shell(folder, environment, tools or {}).run(shown)
    assert [one for one, block in zip(printed, shown, strict=True) if block.output is not None] == [
        block.output for block in shown if block.output is not None
    ]
    return printed


def test_the_quickstart(tmp_path: Path) -> None:
    check(typed(ROOT / "docs" / "quickstart.md"), tmp_path)


def test_the_readme_connects(tmp_path: Path) -> None:
    """kcat, kafka-python and Spark read what the page's own first commands wrote."""
    printed = check([SERVER, *with_spark(typed(ROOT / "README.md", "Connect"))], tmp_path)
    kcat, kafka_python, spark = printed[1:4]
    assert kcat.endswith("hello\n")
    assert kafka_python == "b'hello'\n"
    assert spark.count("|hello|") == 2


def test_the_spark_guide(tmp_path: Path) -> None:
    """Its programs are parts of one: they share a session, which a reader has already."""
    shown = typed(ROOT / "docs" / "spark.md")
    commands = [block for block in shown if block.kind == "sh" and "spark-submit" not in block.text]
    programs = [block for block in shown if block.kind == "python"]
    assert (len(commands), len(programs)) == (2, 6)
    output = "".join(block.output or "" for block in programs)
    whole = Block("python", "".join(block.text for block in programs), output)
    check([SERVER, *commands, *with_spark([whole])], tmp_path)


def test_a_listener_is_secured(tmp_path: Path) -> None:
    """From nothing to a user who comes in encrypted and does what he may, and others who do not."""
    shown = typed(ROOT / "docs" / "security.md", "From nothing to TLS, users and ACLs")
    acls = java_command("org.apache.kafka.tools.AclCommand", kafka_jars(), options=(*SHORT_LIVED, QUIET))
    check(shown, tmp_path, {"kafka-acls.sh": acls})


def test_the_transactions_of_programs(tmp_path: Path) -> None:
    """confluent-kafka, kafka-python and aiokafka commit, abort, and fence each other, in the page's order."""
    shown = typed(ROOT / "docs" / "transactions.md", "From a program")
    assert [block.kind for block in shown].count("python") == 3
    check([SERVER, *shown], tmp_path)


def with_spark(shown: list[Block]) -> list[Block]:
    """Programs that use a session get one for short runs, with the connector from the cache."""
    jars = ",".join(map(str, connector_jars()))
    settings = {"spark.jars": jars, "spark.ui.enabled": "false", **SMALL}
    session = (
        "from pyspark.sql import SparkSession\n"
        f"spark = SparkSession.builder.master('local[2]').config(map={settings!r}).getOrCreate()\n"
    )
    return [
        replace(block, text=session + block.text) if "spark.read" in block.text else block for block in shown
    ]


def test_the_readme_starts_three_stores(tmp_path: Path) -> None:
    tried = Block(
        "sh",
        "dafka topics create tried --replication-factor 3\n"
        "echo hello | kcat -b 127.0.0.1:9092 -t tried -P\n"
        "kcat -b 127.0.0.1:9092 -t tried -C -o beginning -e -q\n",
        output="created tried with 1 partition\nhello\n",
    )
    check([*typed(ROOT / "README.md", "Several machines"), tried], tmp_path)


def test_a_mesh_is_started_and_its_topics_changed(tmp_path: Path) -> None:
    page = ROOT / "docs" / "operations.md"
    check([*typed(page, "Start"), *typed(page, "Change topics while they are used")], tmp_path)


def test_native_records_come_into_a_topic(tmp_path: Path) -> None:
    page = ROOT / "docs" / "native.md"
    check([*typed(page, "Try it")[:2], *typed(page, "From a program")], tmp_path)


def test_the_keys_of_a_mesh_are_made(tmp_path: Path) -> None:
    blocks_of_keys = typed(ROOT / "docs" / "mesh-security.md", "Make keys")
    *made, listed = check([blocks_of_keys[0]], tmp_path)
    assert made == []
    for node in ("tower-1", "store-1", "gateway-1"):
        assert re.search(rf"{node}, a {node[:-2]} \([0-9a-f]{{8}}\): added in keys/store-1", listed)
    assert "keys/store-1 has the key of store-1, a store" in listed


@pytest.mark.long
def test_the_first_archive(tmp_path: Path) -> None:
    """The audit at its end finds the header that `replay` adds, as the page says: exit code 1."""
    shown = typed(ROOT / "docs" / "pipelines.md", "Five minutes to the first archive")
    shown[-1].text = shown[-1].text.rstrip() + " || test $? -eq 1\n"
    printed = check(shown, tmp_path, DAFKA_PIPELINE_JARS=str(pipeline_jars()))
    assert "1000" in printed[1]


def command_lines() -> list[tuple[str, str]]:
    """Each `dafka ...` line of a code block of any page."""
    found = []
    for page in [ROOT / "README.md", *(ROOT / path for path in pages())]:
        if page.name in {"CHANGELOG.md", "FINDINGS.md"}:
            continue
        for block in blocks(page):
            text = block.text.replace("\\\n", " ")
            found += [
                (str(page.relative_to(ROOT)), line.strip()) for line in text.splitlines() if TYPED.match(line)
            ]
    return found


def test_every_command_that_a_page_shows_is_one_with_these_options() -> None:
    lines = command_lines()
    assert len(lines) > 30
    assert [f"{page}: {line}: {wrong}" for page, line in lines if (wrong := problem(line))] == []


def test_a_command_that_there_is_not_is_noticed() -> None:
    assert problem("dafka topics creat orders") == "no such command: creat"
    assert problem("dafka topics create orders --partition-count 4") == "no such option: --partition-count"
    assert problem("dafka topics create orders --partitions 4  # four of them") == ""


def problem(line: str) -> str:
    """What is wrong with a command line, or nothing."""
    program, rest = cast(re.Match[str], TYPED.match(line)).groups()
    words = shlex.split(re.split(r" [|&]|[;>]| && ", rest)[0], comments=True)
    command: click.Command = dafka if program == "dafka" else dafka_pipeline
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name == "...":
            return ""
        inner = command.get_command(click.Context(command), name)
        if inner is None:
            return f"no such command: {name}"
        command = inner
    known = {name for option in command.params for name in [*option.opts, *option.secondary_opts]}
    for word in words:
        name = word.partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", name) and name not in {*known, "--help", "-h"}:
            return f"no such option: {name}"
    return ""
