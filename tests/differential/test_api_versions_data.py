"""The data that docs/compatibility.md is made from is what Apache Kafka says."""

from __future__ import annotations

import pytest

from tests.differential.runner import Pair
from tests.docs.api_versions_table import our_apis
from tests.peers.api_versions import offered_by, offered_by_kafka


@pytest.mark.slow
def test_what_is_kept_is_what_a_running_kafka_offers(pair: Pair) -> None:
    assert offered_by(pair.kafka.bootstrap) == offered_by_kafka()


@pytest.mark.slow
def test_a_client_is_told_what_the_page_says_of_us(pair: Pair) -> None:
    assert offered_by(pair.ours.bootstrap) == our_apis()
