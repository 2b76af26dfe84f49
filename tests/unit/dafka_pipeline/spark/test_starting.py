"""What a process says while it starts, and what is made of it when it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dafka_pipeline.failures import PipelineError, UsageFailure
from dafka_pipeline.spark.starting import Voice, explain_start, heard
from tests.peers.spoken import without_librdkafka

FILL = "Copy them."


def test_what_is_said_while_it_starts_is_kept_back_and_then_only_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    voice = Voice(verbose=False)
    program = (
        "import sys\nprint('early', flush=True)\nprint('early error', file=sys.stderr, flush=True)\ninput()\n"
        "print('WARNING: Using incubator modules: jdk.incubator.vector')\nprint('late')\n"
    )
    with heard(voice):
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True)
        while len(without_librdkafka(list(voice.lines))) < 2:
            pass
    print("ours", flush=True)
    voice.let_through()
    child.communicate("\n")
    assert without_librdkafka(voice.last_lines())[:2] == ["early", "early error"]
    out, err = capfd.readouterr()
    assert out == "ours\n"
    assert without_librdkafka(err.splitlines()) == ["late"]


def test_verbose_lets_everything_through(capfd: pytest.CaptureFixture[str]) -> None:
    voice = Voice(verbose=True)
    with heard(voice):
        subprocess.run([sys.executable, "-c", "print('early')"], check=True)
    assert without_librdkafka(voice.last_lines()) == ["early"]
    assert without_librdkafka(capfd.readouterr().err.splitlines()) == ["early"]


def test_the_last_words_of_one_that_ended_are_all_there() -> None:
    voice = Voice(verbose=False)
    with heard(voice):
        subprocess.run([sys.executable, "-c", "for n in range(1000): print(n)"], check=True)
    last = without_librdkafka(voice.last_lines())
    assert last == [str(n) for n in range(1000 - len(last), 1000)]
    assert len(voice.last_lines()) == 200
    assert len(last) > 100


@pytest.mark.parametrize(
    ("lines", "kind", "says"),
    [
        (
            [
                "\tHost repos.spark-packages.org not found. url=https://repos.spark-packages.org/x.jar",
                "\tServer access error at url http://127.0.0.1:9/x.pom (Connection refused)",
                "::          UNRESOLVED DEPENDENCIES         ::",
            ],
            UsageFailure,
            (
                r"from Maven \(Server access error at url http://127.0.0.1:9/x.pom \(Connection refused\)\)"
                r"\. Without a network: --jars DIR\. Copy them\.$"
            ),
        ),
        (
            [
                "\tHost repos.spark-packages.org not found.",
                "\tHost repo1.maven.org not found. url=https://repo1.maven.org/x",
                "java.lang.RuntimeException: [unresolved dependency: io.delta#delta;4: not found]",
            ],
            UsageFailure,
            r"\(Host repo1.maven.org not found\)",
        ),
        (
            [
                "\tHost repos.spark-packages.org not found.",
                "[unresolved dependency: io.delta#delta;4: not found, unresolved dependency: b]",
            ],
            UsageFailure,
            r"\(unresolved dependency: io.delta#delta;4: not found\)",
        ),
        (
            ["Error occurred during initialization of VM", "Could not reserve enough space for object heap"],
            UsageFailure,
            "spark.driver.memory",
        ),
        (
            ['Exception in thread "main" org.apache.spark.SparkException: Master must either be'],
            UsageFailure,
            "--master takes",
        ),
        (["java.io.IOException: No space left on device"], PipelineError, "disk is full"),
        (
            ["one", 'Exception in thread "main" java.lang.Foo: bar', "\tat x"],
            UsageFailure,
            "(?s)did not start: java.lang.Foo: bar. Its last lines:\n  one\n.*at x$",
        ),
        ([], UsageFailure, "it does not say why"),
    ],
)
def test_why_it_did_not_start(lines: list[str], kind: type[PipelineError], says: str) -> None:
    failure = explain_start(lines, FILL)
    assert type(failure) is kind
    with pytest.raises(kind, match=says):
        raise failure
