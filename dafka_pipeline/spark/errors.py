"""What an exception of Spark means for whoever started the job: one line with the cause and the next step.

Spark's own messages are stack traces of several threads and machines; what has happened stands in one of
their lines. The rules below are looked at in order: what is a cause before what it brings about (a lost
executor may have run out of memory).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from dafka_pipeline.failures import KafkaAway, PipelineError, RecordsGone, Stopped, UsageFailure

LONGEST_CAUSE: Final = 400
"""Characters of Spark's own words in a message: they may hold a whole plan or a list of files."""


class SparkLost(PipelineError):
    """A part of Spark went away while it worked: the same batch again may go well."""

    retriable = True


class Rule(NamedTuple):
    """What a pattern in Spark's words means; `says` may have the groups of the pattern."""

    pattern: re.Pattern[str]
    kind: type[PipelineError]
    says: str


def _rule(pattern: str, kind: type[PipelineError], says: str) -> Rule:
    return Rule(re.compile(pattern), kind, says)


GONE: Final = (
    "Spark's Java process has ended in the middle: it ran out of memory (give more by --conf "
    "spark.driver.memory=4g, or make batches smaller by --max-batch-bytes), or somebody killed it. What was "
    "committed is safe; start the same command again."
)

RULES: Final = (
    _rule(
        r"cancelled as part of cancellation of all jobs|Job \d+ cancelled (?!because SparkContext)",
        Stopped,
        "What ran was cancelled because the job was asked to stop.",
    ),
    _rule(
        r"No space left on device|Disk quota exceeded|not enough space",
        PipelineError,
        "A disk is full, where the table is or where Spark spills to (--conf spark.local.dir=DIR moves "
        "that). Make room and start the same command again.",
    ),
    _rule(
        r"\[Errno (?:1|13|30)\]|\(Permission denied\)|AccessControlException|Read-only file system",
        UsageFailure,
        "What the job has to write cannot be written: look at the directory's owner and rights, and whether "
        "its disk is mounted read-only.",
    ),
    _rule(
        r"PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION",
        UsageFailure,
        "A Python package is missing, here or on a worker: pip install 'dafka-gateway[spark]' there (on a "
        "cluster by --archives).",
    ),
    _rule(
        r"INVALID_(DRIVER|EXECUTOR)_MEMORY|must be at least \d+\.? Please increase (?:heap|executor)",
        UsageFailure,
        "Spark refuses to start with so little memory: give 512 MiB or more by --conf "
        "spark.driver.memory=1g (and spark.executor.memory on a cluster).",
    ),
    _rule(
        r"OutOfMemoryError: unable to create native thread",
        PipelineError,
        "The system lets Spark start no more threads: raise the limit of processes (ulimit -u, or the "
        "container's limit of pids), or use fewer threads, e.g. --master 'local[2]'.",
    ),
    _rule(
        r"OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|UNABLE_TO_EXTEND_|[Oo]ut of memory"
        r"|Container killed by YARN for exceeding|OOMKilled|exit(?:ed with)? code:? 137",
        PipelineError,
        "Memory is too small for a batch: give more by --conf spark.driver.memory=4g (in local mode) or "
        "--conf spark.executor.memory=4g (on a cluster), or make batches smaller by --max-batch-bytes.",
    ),
    # In local mode the one Java process ends itself when a task has no memory left.
    _rule(r"SparkContext was shut down|Answer from Java side is empty", PipelineError, GONE),
    _rule(
        r"SslAuthenticationException|SSL handshake failed|SSLHandshakeException|PKIX path|SSLException",
        UsageFailure,
        "TLS to Kafka fails: the certificate is not trusted, or the listener speaks no TLS. Look at --kafka "
        "security.protocol, ssl.truststore.type, ssl.truststore.location (it must be there on every worker).",
    ),
    _rule(
        r"SaslAuthenticationException|UnsupportedSaslMechanismException|LoginException|JAAS config"
        r"|Could not find a 'KafkaClient' entry",
        UsageFailure,
        "Kafka does not let this user in: look at --kafka security.protocol, sasl.mechanism, "
        "sasl.jaas.config.",
    ),
    _rule(
        r"(?:Topic|Group|Cluster|TransactionalId)?AuthorizationException|Not authorized to access",
        UsageFailure,
        "Kafka lets this user in, but not do this: it needs Describe and Read on the topics (Write on "
        "those that are written) and on the group, see --kafka group.id.",
    ),
    _rule(
        r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|OffsetsOutOfRange|data may have been lost",
        RecordsGone,
        "Records that were to be read are no longer in Kafka: retention removed them, or their topic was "
        "deleted.",
    ),
    _rule(
        r"UnknownTopicOrPartitionException|UnknownTopicIdException|does not host this topic-partition",
        RecordsGone,
        "A topic that was to be read is no longer there.",
    ),
    _rule(
        r"kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|NotLeader|LeaderNotAvail)"
        r"|Cannot fetch record|No resolvable bootstrap urls|Timeout of \d+ms expired before",
        KafkaAway,
        "Kafka stopped answering Spark's tasks. They reach it under the addresses that its brokers "
        "advertise: these must be right for every worker.",
    ),
    _rule(
        r"S3AFileSystem not found|No FileSystem for scheme",
        UsageFailure,
        "This Spark has no driver for that kind of storage. For s3a://: --conf "
        "spark.jars.packages=org.apache.hadoop:hadoop-aws:3.4.1 (it is added to the jars of this package).",
    ),
    _rule(
        r"NoAuthWithAWSException|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Status Code: 403",
        UsageFailure,
        "The object store refuses the credentials: see --conf spark.hadoop.fs.s3a.access.key, "
        "spark.hadoop.fs.s3a.secret.key, spark.hadoop.fs.s3a.endpoint, or the environment's AWS_* variables.",
    ),
    _rule(
        r"NoSuchMethodError|NoClassDefFoundError|AbstractMethodError|IncompatibleClassChangeError"
        r"|NoSuchFieldError|InvalidClassException|ClassNotFoundException: (?:org\.apache|io\.delta|scala)"
        r"|DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source",
        UsageFailure,
        "Spark and a jar do not fit each other: the connector, Delta and Spark (here, and on the cluster's "
        "workers) must have the versions that 'dafka-pipeline --help' was installed with. Leave out --conf "
        "spark.jars and spark.jars.packages, or see --jars.",
    ),
    _rule(
        r"Could not parse Master URL",
        UsageFailure,
        "Spark does not know such a master: --master takes e.g. local[2], spark://HOST:7077, yarn, "
        "k8s://https://HOST:443.",
    ),
    _rule(
        r"All masters are unresponsive|Application has been killed|Master removed our application"
        r"|Cannot call methods on a stopped SparkContext",
        PipelineError,
        "The Spark cluster does not answer or has ended this application: is --master right, are its "
        "workers up, do they reach this machine (--conf spark.driver.host=ADDRESS)?",
    ),
    _rule(
        r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        UsageFailure,
        "The workers run another Python than this one: ship this environment with --conf spark.archives, "
        "or name a Python that is there on every worker with PYSPARK_PYTHON.",
    ),
    _rule(
        r"Cannot run program \"([^\"]+)\"",
        UsageFailure,
        "The workers have no Python at {0}: name one that is there on every worker with PYSPARK_PYTHON, or "
        "ship this environment with --conf spark.archives.",
    ),
    _rule(
        r"ModuleNotFoundError: No module named '([^']+)'",
        UsageFailure,
        "The workers' Python has no module {0}: ship this environment with --conf spark.archives, or add "
        "the file with --conf spark.submit.pyFiles=FILE.",
    ),
    _rule(
        r"Python worker exited unexpectedly|PYTHON_WORKER_(?:EXITED|CRASHED)",
        SparkLost,
        "A Python worker ended in the middle of a task: somebody killed it, or the system because of its "
        "memory.",
    ),
    _rule(
        r"ExecutorLostFailure|[Ee]xecutor (?:\S+ )?(?:lost|heartbeat timed out)|Worker shutting down"
        r"|FetchFailed|MetadataFetchFailed|executor decommission",
        SparkLost,
        "An executor went away in the middle of a task, and its tasks failed as often as Spark tries.",
    ),
    _rule(
        r"Permission denied|AccessControlException|Read-only file system|Mkdirs failed|Parent path is not",
        UsageFailure,
        "A directory cannot be written to: see its rights, what is there, and spark.local.dir.",
    ),
)  # fmt: skip


def is_sparks(error: BaseException) -> bool:
    """Whether it comes from PySpark, Py4J or a connection of theirs, asked without importing them."""
    return type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}


def explain_spark(error: BaseException) -> PipelineError:
    """What is raised instead of an exception of Spark or Py4J: a failure that names the cause and the next
    step.

    `retriable` says whether the same work again may go well. One of ours stays what it is.
    """
    if isinstance(error, PipelineError):
        return error
    if _jvm_has_gone(error):
        return PipelineError(GONE)
    return explain_words(words_of(error))


def explain_words(words: str) -> PipelineError:
    """As `explain_spark`, of what an exception says with all its causes."""
    for rule in RULES:
        found = rule.pattern.search(words)
        if found is not None:
            cause = line_around(words, found.start())
            return rule.kind(f"{rule.says.format(*found.groups())} ({cause})")
    python = python_error(words)
    if python is not None:
        return PipelineError(f"Python code in a task has failed: {python}")
    return PipelineError(f"Spark has failed: {root_cause(words)}")


def words_of(error: BaseException) -> str:
    """All that an exception says, with the causes on Java's side; also when nobody answers there any more."""
    parts = []
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        for ask in _askings(following):
            try:
                said = ask()
            except Exception:  # noqa: BLE001, S112  # Java is asked for the text, and may be gone
                continue
            if isinstance(said, str) and said not in parts:
                parts.append(said)
        following = getattr(following, "_cause", None) or following.__cause__
    return "\n".join(parts)


def _askings(error: BaseException) -> list[Callable[[], object]]:
    return [
        lambda: f"{type(error).__name__}: {error}",
        # PySpark's own exceptions keep the trace of Java's apart.
        lambda: getattr(error, "_stackTrace", None),
    ]


def root_cause(words: str) -> str:
    """The innermost cause in a Java stack trace, in one line; else the first line."""
    causes = re.findall(r"^Caused by: (.*)$", words, re.MULTILINE)
    if causes:
        return _short(causes[-1])
    java = re.findall(r"^: ((?:\w+\.)+\w+(?:: .*)?)$", words, re.MULTILINE)
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return _short(java[0] if java else (lines[0] if lines else "it does not say why"))


def python_error(words: str) -> str | None:
    """The last line of the last Python traceback in it."""
    _, traceback, after = words.rpartition("Traceback (most recent call last):")
    if not traceback:
        return None
    for line in after.splitlines()[1:]:
        if line and not line[0].isspace():
            return _short(line)
    return None


def line_around(words: str, position: int) -> str:
    """The line in which a position is, from its exception's name on."""
    end = words.find("\n", position)
    start = max(words.rfind("\n", 0, position), words.rfind(" ", 0, position)) + 1
    before = re.search(r"((?:\w+\.)+\w+: )[^\n:]*$", words[max(0, start - LONGEST_CAUSE) : start])
    return _short(words[start - len(before[0]) if before else start : end if end >= 0 else None])


def _jvm_has_gone(error: BaseException) -> bool:
    name = type(error).__name__
    # Py4J says "An error occurred while calling o54.count" and nothing else when it could not even ask.
    unanswered = name == "Py4JError" and re.fullmatch(r"An error occurred while calling \S+", str(error))
    return name == "Py4JNetworkError" or isinstance(error, ConnectionError) or bool(unanswered)


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= LONGEST_CAUSE else line[: LONGEST_CAUSE - 3] + "..."
