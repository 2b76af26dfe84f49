"""The settings of docs/security.md, in the programs of docs/connect.md: each comes in as alice by them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.connect import EXAMPLES, compiler_with_librdkafka
from tests.docs.constants_page import ROOT
from tests.peers.go import go_program
from tests.peers.java import QUIET, SHORT_LIVED, java_command
from tests.peers.maven import client_jars
from tests.peers.requirements import require
from tests.peers.secured import Secured

SECONDS = 120
PASSWORD = "of alice; and=nobody's"
PAGE = (ROOT / "docs" / "security.md").read_text()


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with Secured("--group-initial-rebalance-delay-ms", "0", protocols=["SASL_SSL"]) as made:
        made.set_password("alice", PASSWORD)
        yield made


def on_the_page(language: str, having: str) -> str:
    """The one block of a language with this in it."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    [text] = [text for text in found if having in text]
    assert isinstance(text, str)
    return text


def put(text: str, *changes: tuple[str, str]) -> str:
    """With each first text replaced by the second."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def java(folder: Path) -> list[str]:
    settings = put(on_the_page("properties", "ssl.truststore.location=ca.pem"), ("...", PASSWORD))
    (folder / "alice-java.properties").write_text(settings)
    hello = put(
        (EXAMPLES / "java" / "Hello.java").read_text(),
        ('Map.of("bootstrap.servers", bootstrap)', 'secured(Map.of("bootstrap.servers", bootstrap))'),
        ("reading = Map.of(", "reading = secured(Map.of("),
        ('"earliest");', '"earliest"));'),
        ("public class Hello {\n", "public class Hello {\n" + on_the_page("java", "secured(")),
    )
    (folder / "Hello.java").write_text(hello)
    jars = client_jars()
    build(folder, require("javac"), "-cp", f"{jars}/*", "Hello.java")
    return java_command("Hello", folder, jars, options=(*SHORT_LIVED, QUIET))


def aiokafka(folder: Path) -> list[str]:
    block = on_the_page("python", "create_ssl_context")
    hello = put(
        (EXAMPLES / "python" / "hello_aiokafka.py").read_text(),
        ("bootstrap_servers=bootstrap", "bootstrap_servers=bootstrap, **come_in"),
        ("bootstrap, topic = ", f"{block}\nbootstrap, topic = "),
    )
    (folder / "hello.py").write_text(hello)
    return [sys.executable, "hello.py"]


def go(folder: Path) -> list[str]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(EXAMPLES / "go" / name, folder)
    hello = put(
        (EXAMPLES / "go" / "hello.go").read_text(),
        ("kgo.NewClient(\n", "kgo.NewClient(append(secured(),\n"),
        ("\t)\n\tif err", "\t)...)\n\tif err"),
    )
    (folder / "hello.go").write_text(hello)
    (folder / "secured.go").write_text(on_the_page("go", "kgo.SASL"))
    build(folder, go_program(folder / "go.mod"), "build", "-mod=mod", "-o", "hello-go", ".")
    return ["./hello-go"]


def javascript(folder: Path) -> list[str]:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(EXAMPLES / "javascript" / name, folder)
    block = on_the_page("javascript", "scram-sha-512")
    hello = (EXAMPLES / "javascript" / "hello.js").read_text()
    (folder / "hello.js").write_text(put(hello, ("brokers: [bootstrap],", f"brokers: [bootstrap],\n{block}")))
    build(folder, require("npm"), "ci", "--silent", "--no-audit", "--no-fund")
    return [require("node"), "hello.js"]


def c(folder: Path) -> list[str]:
    block = on_the_page("c", "sasl.password")
    hello = (EXAMPLES / "c" / "hello.c").read_text()
    for settings in ("sending", "reading"):
        address = f'set({settings}, "bootstrap.servers", bootstrap);\n'
        hello = put(hello, (address, address + block.replace("settings", settings)))
    (folder / "hello.c").write_text(hello)
    compiler = compiler_with_librdkafka()
    build(folder, compiler, "-Wall", "-Wextra", "-Werror", "-o", "hello-c", "hello.c", "-lrdkafka")
    return ["./hello-c"]


def build(folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS * 3
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", [java, aiokafka, go, javascript, c])
def test_a_program_comes_in(secured: Secured, tmp_path: Path, program: Callable[[Path], list[str]]) -> None:
    shutil.copy(secured.ca, tmp_path / "ca.pem")
    (tmp_path / "alice.password").write_text(f"{PASSWORD}\n")
    command = [*program(tmp_path), secured.address("SASL_SSL"), f"hello-{program.__name__}"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "ALICE_PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hello from ")


def test_the_options_for_spark_are_those_that_are_tried() -> None:
    """By tests/spark/test_secured.py."""
    names = set(re.findall(r'\.option\("(kafka\.[^"]+)"', PAGE))
    tried = set(re.findall(r'"(kafka\.[^"]+)":', (ROOT / "tests" / "spark" / "test_secured.py").read_text()))
    assert names
    assert names == tried
