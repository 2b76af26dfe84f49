"""Transactions as tools see them: done ones, and one that hangs until kafka-transactions aborts it."""

from __future__ import annotations

from typing import Any, Final

import confluent_kafka
from frameworks.checks import equal
from java_tools.consoles import WAIT
from java_tools.host import Tools
from java_tools.logs import shown
from java_tools.tables import table

library: Any = confluent_kafka
PATIENCE_SECONDS: Final = 30.0
RECORDS: Final = 50
TOOL: Final = "kafka-transactions"


def transactions_under_way(tools: Tools) -> None:
    name, done, open_one = tools.topic(), f"done-{tools.topic()}", f"open-{tools.topic()}"
    of = ("--topic", name, "--throughput", "-1", "--num-records", str(RECORDS), "--payload-monotonic")
    tools.run("kafka-producer-perf-test", *of, "--transactional-id", done, "--transaction-duration-ms", "100")
    committed = [str(n) for n in range(RECORDS)]
    equal(_read(tools, name, RECORDS, "read_committed"), committed, "what the performance test committed")
    equal(_states(tools)[done], "CompleteCommit", "its transaction")

    start = shown(tools, "--topic", name)[(name, 0)]
    settings = {"bootstrap.servers": tools.bootstrap, "transactional.id": open_one, "log_level": 0}
    producer = library.Producer(settings)
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce(name, b"open", partition=0)
    equal(producer.flush(PATIENCE_SECONDS), 0, "records that are not acknowledged")

    equal(_states(tools)[open_one], "Ongoing", "state in the list")
    described = tools.run(TOOL, "describe", "--transactional-id", open_one).lines
    (row,) = table(described, "CoordinatorId")
    equal((row["TransactionState"], row["TopicPartitions"]), ("Ongoing", f"{name}-0"), "its description")
    equal(_open_from(tools, name), [str(start)], "where open transactions begin")
    equal(_read(tools, name, RECORDS + 1, "read_uncommitted"), [*committed, "open"], "with what is open")

    tools.run(TOOL, "abort", "--topic", name, "--partition", "0", "--start-offset", str(start))
    equal(_open_from(tools, name), [], "open transactions after the abort")
    tools.produce(name, "key:after")
    equal(_read(tools, name, RECORDS + 1, "read_committed"), [*committed, "after"], "with what follows")


def _read(tools: Tools, name: str, count: int, isolation: str) -> list[str]:
    how = ("--topic", name, "--from-beginning", "--max-messages", str(count), "--isolation-level", isolation)
    return tools.run("kafka-console-consumer", *how, *WAIT).out.splitlines()


def _states(tools: Tools) -> dict[str, str]:
    rows = table(tools.run(TOOL, "list").lines, "TransactionalId")
    return {row["TransactionalId"]: row["TransactionState"] for row in rows}


def _open_from(tools: Tools, name: str) -> list[str]:
    lines = tools.run(TOOL, "describe-producers", "--topic", name, "--partition", "0").lines
    starts = [row["CurrentTransactionStartOffset"] for row in table(lines, "ProducerId")]
    return [start for start in starts if start != "None"]
