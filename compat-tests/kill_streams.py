"""Kafka Streams of `exactly_once_v2` while it and its server get SIGKILLs; see `kafka_streams.kills`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests.peers

from kafka_streams import kills

from tests.faults.kills import run_rounds

if __name__ == "__main__":
    sys.exit(run_rounds(kills.Round, kills.__doc__, kills.KILLS_OF_A_ROUND))
