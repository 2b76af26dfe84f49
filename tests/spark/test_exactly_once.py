"""The documented `foreachBatch` that writes in transactions, while driver and gateways get a SIGKILL.

`tests.spark.kills_exactly_once` goes on for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.gateways import Gateways
from tests.spark.exactly_once_driver import AFTER, BEFORE
from tests.spark.pumping import Pumped

pytestmark = pytest.mark.slow
GATEWAYS = 3
TRANSACTIONS = 30


def test_each_record_once_over_kills(tmp_path: Path) -> None:
    """The driver dies within a transaction and behind one, together with gateways; then these alone, while it
    does what is left. A driver that was only thought dead goes on at the end, and is told so.
    """
    with Gateways(GATEWAYS) as cluster:
        pumped = Pumped(cluster, tmp_path)
        pumped.fill(TRANSACTIONS)
        stopped = [tmp_path / f"stopped-{n}" for n in range(3)]
        with pumped.program(BEFORE, 2, stopped[0]) as thought_dead:
            thought_dead.wait_until(stopped[0].exists)
            with pumped.program(AFTER, 2, stopped[1]) as program:
                program.wait_until(stopped[1].exists)
                cluster.kill_together("gateway-1")
            with pumped.program(BEFORE, 2, stopped[2]) as program:
                program.wait_until(stopped[2].exists)
                cluster.kill_together("gateway-2", "gateway-3")
            with cluster.killed_in_turn(1.0):
                pumped.run_to_the_end()
            written = pumped.written()
            stopped[0].unlink()
            assert thought_dead.wait_for_end() != 0
            assert "fenced" in thought_dead.text
        committed = pumped.compare()
        assert committed == pumped.wanted
        # What the programs had written that died before their commits is there, and nothing after that.
        assert pumped.written() == written > committed
