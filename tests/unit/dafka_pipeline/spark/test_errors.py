"""Spark's words, as it said them, and what is made of them."""

from __future__ import annotations

import pytest

from dafka_pipeline.failures import KafkaAway, PipelineError, RecordsGone, Refused, Stopped, UsageFailure
from dafka_pipeline.spark.errors import SparkLost, explain_spark, explain_words, python_error, root_cause

LOST_TASK = (
    "An error occurred while calling o93.save.\n: org.apache.spark.SparkException: Job aborted due to stage "
    "failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) "
    "(192.0.2.2 executor driver): {}\n\tat org.apache.spark.api.Foo(Foo.scala:1)\n\n"
    "Driver stacktrace:\n\tat org.apache.spark.Bar"
)
PYTHON = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 2044, in main
    process()
  File "/home/me/mine.py", line 3, in f
    yield 1/0
          ~^~
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""
CASES = {
    "stopped": (
        (
            "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 0 cancelled as part of cancellation "
            "of all jobs SQLSTATE: XXKDA"
        ),
        Stopped,
        False,
        "asked to stop",
    ),
    "local mode out of memory": (
        "org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down",
        PipelineError,
        False,
        "--max-batch-bytes",
    ),
    "disk": (
        LOST_TASK.format("org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"),
        PipelineError,
        False,
        "A disk is full.*(java.io.IOException: No space left on device)",
    ),
    "a package": (
        "[PACKAGE_NOT_INSTALLED] Pandas >= 2.0.0 must be installed; however, it was not found.",
        UsageFailure,
        False,
        r"A Python package is missing.*dafka-gateway\[spark\]",
    ),
    "a directory's rights": (
        "PermissionError: [Errno 13] Permission denied: '/srv/a/_delta_log'",
        UsageFailure,
        False,
        "cannot be written: look at the directory's owner and rights",
    ),
    "driver memory": (
        (
            "org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] System memory 268435456 "
            "must be at least 471859200.\nPlease increase heap size"
        ),
        UsageFailure,
        False,
        "spark.driver.memory=1g",
    ),
    "heap": (
        LOST_TASK.format("java.lang.OutOfMemoryError: Java heap space"),
        PipelineError,
        False,
        r"spark.executor.memory=4g.*--max-batch-bytes.*\(java.lang.OutOfMemoryError: Java heap space\)",
    ),
    "an executor that ran out of memory is not merely lost": (
        (
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Container "
            "killed by YARN for exceeding physical memory limits. 1.5 GB of 1.5 GB used"
        ),
        PipelineError,
        False,
        "Memory is too small",
    ),
    "an executor": (
        (
            "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command "
            "exited with code 1"
        ),
        SparkLost,
        True,
        "An executor went away",
    ),
    "a Python worker": (
        LOST_TASK.format("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."),
        SparkLost,
        True,
        r"\(org.apache.spark.SparkException: Python worker exited unexpectedly \(crashed\).\)",
    ),
    "records": (
        LOST_TASK.format(
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException: "
            "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not "
            "available in Kafka any more"
        ),
        RecordsGone,
        True,
        "no longer in Kafka",
    ),
    "a topic": (
        (
            "Caused by: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does "
            "not host this topic-partition."
        ),
        RecordsGone,
        True,
        "no longer there",
    ),
    "Kafka": (
        (
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: "
            "Timed out waiting for a node assignment. Call: listNodes"
        ),
        KafkaAway,
        True,
        "addresses that its brokers advertise",
    ),
    "a password": (
        (
            "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: "
            "Invalid username or password"
        ),
        UsageFailure,
        False,
        "sasl.jaas.config",
    ),
    "TLS": (
        (
            "Caused by: org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed\n"
            "Caused by: javax.net.ssl.SSLHandshakeException: PKIX path building failed"
        ),
        UsageFailure,
        False,
        "ssl.truststore.location",
    ),
    "rights": (
        (
            "Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access "
            "topics: [orders]"
        ),
        UsageFailure,
        False,
        r"Describe and Read.*topics: \[orders\]",
    ),
    "versions": (
        "Caused by: java.lang.NoSuchMethodError: 'void org.apache.spark.sql.Foo.bar()'",
        UsageFailure,
        False,
        "do not fit each other",
    ),
    "connector": (
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.",
        UsageFailure,
        False,
        "do not fit each other",
    ),
    "S3": (
        (
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
            "org.apache.hadoop.fs.s3a.S3AFileSystem not found"
        ),
        UsageFailure,
        False,
        "hadoop-aws",
    ),
    "a module": (
        PYTHON.replace("ZeroDivisionError: division by zero", "ModuleNotFoundError: No module named 'mine'"),
        UsageFailure,
        False,
        "no module mine:",
    ),
    "a user's function": (PYTHON, PipelineError, False, "has failed: ZeroDivisionError: division by zero$"),
    "a directory": (
        LOST_TASK.format("java.io.IOException: Mkdirs failed to create file:/proc/x/_temporary/0"),
        UsageFailure,
        False,
        "cannot be written to",
    ),
    "what nobody knows": (
        (
            "An error occurred.\n: org.apache.spark.SparkException: Job aborted.\n\tat a.b\nCaused by: "
            "java.lang.IllegalStateException: this\n\tat c.d\nCaused by: java.lang.Foo: that\n\tat e.f"
        ),
        PipelineError,
        False,
        "^Spark has failed: java.lang.Foo: that$",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_words(name: str) -> None:
    words, kind, retriable, says = CASES[name]
    failure = explain_words(words)
    assert type(failure) is kind
    assert failure.retriable is retriable
    # One line, and no page of it.
    assert "\n" not in str(failure)
    assert len(str(failure)) < 800
    with pytest.raises(kind, match=says):
        raise failure


def test_ours_stay_what_they_are() -> None:
    ours = Refused("no")
    assert explain_spark(ours) is ours


def test_a_java_process_that_has_gone() -> None:
    for error in (ConnectionRefusedError(111, "refused"), ConnectionResetError(104, "reset")):
        assert "has ended in the middle" in str(explain_spark(error))


def test_an_exception_whose_text_cannot_be_asked_for() -> None:
    class FromJava(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError("Java has gone")

    assert str(explain_spark(FromJava())) == "Spark has failed: it does not say why"


def test_causes_of_causes_are_read() -> None:
    inner = RuntimeError("java.io.IOException: No space left on device")
    middle = ValueError("middle")
    middle.__cause__ = inner
    outer = KeyError("outer")
    outer.__cause__ = middle
    inner.__cause__ = outer  # a circle ends
    assert "A disk is full" in str(explain_spark(outer))


def test_long_words_are_cut() -> None:
    failure = explain_words("x" * 5000 + " " + "java.io.IOException: No space left on device " + "y" * 5000)
    assert "(java.io.IOException: No space left on device yyy" in str(failure)
    assert len(str(failure)) < 700
    assert len(str(explain_words("z" * 5000))) < 500


def test_root_causes() -> None:
    assert root_cause("") == "it does not say why"
    assert root_cause("\n  first \nsecond") == "first"
    assert python_error("nothing") is None
