"""Questions that go to coordinators, of groups or transactional ids, asked again while one is not ready."""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from dafka.commands.cluster import Cluster
from dafka.commands.kafka_client import TIMEOUT_SECONDS, KafkaClient, error_name
from wireproto.kafka.api_keys import ApiKey

_Answer = TypeVar("_Answer")

FIND_COORDINATOR_VERSION: Final = 3
"""The newest that names one key: every Kafka from 2.5 on has it."""

OF_GROUPS: Final = 0
OF_TRANSACTIONS: Final = 1
"""The kinds of coordinators that FindCoordinator is asked for."""

RETRIED: Final = {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}
"""Over in a moment, most likely."""

RETRY_SECONDS: Final = 0.2
"""Between two tries at what a coordinator could not do yet."""


class Refused(Exception):
    """The error that a coordinator, or FindCoordinator, has answered with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    @property
    def error(self) -> str:
        """Its name."""
        return error_name(self.code)


def check(code: int) -> None:
    """Raises Refused, if that is an error."""
    if code:
        raise Refused(code)


def until_ready(ask: Callable[[], _Answer]) -> _Answer:
    """What `ask` returns, which is called again as long as it raises Refused for what is over in a moment.
    Raises Refused.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return ask()
        except Refused as refused:
            if refused.error not in RETRIED or time.monotonic() >= deadline:
                raise
        time.sleep(RETRY_SECONDS)


class Coordinators:
    """The coordinators of one kind, found through a bootstrap connection."""

    def __init__(self, bootstrap: KafkaClient, cluster: Cluster, kind: int) -> None:
        self._bootstrap = bootstrap
        self._cluster = cluster
        self._kind = kind
        self._nodes: dict[str, int] = {}

    def ask(self, key: str, ask: Callable[[KafkaClient], Any], error_of: Callable[[Any], int]) -> Any:
        """The answer about a group or transactional id; its coordinator is looked for again when that is not
        ready. Raises Refused, KafkaTrouble, CommandFailed.
        """

        def asked() -> Any:
            try:
                answer = ask(self._cluster.leader(self.node(key)))
                check(error_of(answer))
            except Refused:
                self._nodes.pop(key, None)
                raise
            return answer

        return until_ready(asked)

    def node(self, key: str) -> int:
        """The coordinator. Raises Refused, KafkaTrouble."""
        if key not in self._nodes:
            answer = self._bootstrap.ask(
                ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, key=key, key_type=self._kind
            )
            check(answer.error_code)
            self._cluster.metadata([])
            self._nodes[key] = answer.node_id
        return self._nodes[key]
