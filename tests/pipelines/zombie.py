"""A task of a replay as a process of its own, sent on its way by nobody: what is left of a dead driver.

Reads `{"bootstrap", "topic", "stream", "count", "until", "message"}` as JSON from its argument. Sends the
first ten small records to partition 0 and says `begun` when they have arrived; sends the others once it is
told to by a line, says `queued` when they are, and `arrived` or why not at its end.
"""

from __future__ import annotations

import json
import sys

from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import Plan, Timing
from dafka_pipeline.producing.rows import Rows
from dafka_pipeline.producing.sender import Ended, Progress, Sender, producer_settings
from tests.clients.sample import small_records


def main() -> None:
    given = json.loads(sys.argv[1])
    timing = Timing(message=given["message"], stall=given["message"] * 10, spread=given["message"] * 10)
    plan = Plan(
        given["stream"],
        KafkaOptions(given["bootstrap"]),
        (given["topic"],),
        compression="none",
        timing=timing,
    )
    records = small_records(given["count"], "0")
    sender = Sender(plan, given["until"], given["until"], 0, producer_settings(plan, 1_000_000))
    to = Progress(TopicPartition(given["topic"], 0), None, -1, None)
    try:
        for first in range(0, len(records), 10):
            part = records[first : first + 10]
            rows = Rows(
                0,
                [f"{given['stream']}|{first + n}" for n in range(len(part))],
                [one.timestamp for one in part],
                [one.key for one in part],
                [one.value for one in part],
            )
            sender.send(rows, 0, to)
            if first == 0:
                sender.finish()
                say("begun")
                sys.stdin.readline()
        say("queued")
        sender.finish()
        say("arrived")
    except Ended as ended:
        say(f"ended: {ended.why}")
    finally:
        sender.close()


def say(text: str) -> None:
    print(text, flush=True)


main()
