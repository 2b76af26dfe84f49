"""One of the two servers as a case sees it: asks, remembers what it heard, and sets topics up."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from tests.differential.principals import NOBODY, log_in
from tests.differential.wire import MESSAGES, Connection, UndecodableError, decode, encode, frame, header

SETTLE_SECONDS = 20.0
ANSWER_SECONDS = 15.0
NO_ERROR = 0
OF_GROUPS, OF_TRANSACTIONS = 0, 1  # kinds of coordinator
END_TXN = 26
SASL_AUTHENTICATE = 36
NOT_READY = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
# That many names fall into each of the 50 partitions of __transaction_state.
NAMES_FOR_ALL_PARTITIONS = 1_000
# Where the two sides' bytes are compared, this and the next numbers stand for ids that the servers chose.
FIRST_STAND_IN = 1 << 56


@dataclass
class Server:
    """Facts that differ between servers and mean nothing: learned once, used to normalise."""

    name: str
    bootstrap: str
    run: str
    node_id: int = -1
    cluster_id: str = ""
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    member_ids: list[str] = field(default_factory=list)
    producer_ids: dict[int, int] = field(default_factory=dict)
    filled: set[tuple[str, int]] = field(default_factory=set)
    sasl: str = ""
    """Where it asks who somebody is; `bootstrap` is for the set-up then, and may everything."""
    has_acls: bool = False
    """Those of the principals are there (`tests.differential.principals`)."""

    @classmethod
    def reach(cls, name: str, bootstrap: str, run: str, sasl: str = "") -> Server:
        server = cls(name, bootstrap, run, sasl=sasl)
        with Connection(bootstrap) as connection:
            answer = connection.ask(DescribeClusterRequest(version=0))
            server.cluster_id = answer.cluster_id
            server.node_id = answer.brokers[0].broker_id
            await_coordinator(connection, OF_GROUPS)
            await_groups(connection)
            offered = connection.ask(ApiVersionsRequest(version=0)).api_keys
            if END_TXN in {api.api_key for api in offered}:
                await_coordinator(connection, OF_TRANSACTIONS)
                await_transactions(connection)
        return server


def await_coordinator(connection: Connection, key_type: int) -> None:
    """The first question makes Kafka create an internal topic: have that behind us before the cases start."""
    request = FindCoordinatorRequest(version=1, key="warm-up", key_type=key_type)
    _until(lambda: connection.ask(request).error_code == NO_ERROR, f"no coordinator of type {key_type}")


def await_transactions(connection: Connection) -> None:
    """Each partition of the transactions' log has a leader of its own, which reads it before it answers."""
    request = DescribeTransactionsRequest(version=0, transactional_ids=_names_for_all_partitions())
    _until(
        lambda: not NOT_READY & {state.error_code for state in connection.ask(request).transaction_states},
        "the coordinators of transactions are not ready",
    )
    await_producer_ids(connection)


def await_groups(connection: Connection) -> None:
    """Likewise each partition of the offsets' log."""
    request = DescribeGroupsRequest(version=0, groups=_names_for_all_partitions())
    _until(
        lambda: not NOT_READY & {group.error_code for group in connection.ask(request).groups},
        "the coordinators of groups are not ready",
    )


def await_producer_ids(connection: Connection) -> None:
    """Waits until producers get ids: Kafka fetches its first block of them when one is asked for."""
    request = InitProducerIdRequest(version=0, transactional_id=None, transaction_timeout_ms=60_000)
    _until(lambda: connection.ask(request).error_code == NO_ERROR, "no producer ids are given", pause=0.01)


def _names_for_all_partitions() -> list[str]:
    return [f"warm-up-{n}" for n in range(NAMES_FOR_ALL_PARTITIONS)]


def _until(is_so: Callable[[], bool], otherwise: str, pause: float = 0.05) -> None:
    """Raises TimeoutError, which says what is `otherwise`."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(pause)


@dataclass(frozen=True)
class Exchange:
    """One thing asked and what came: a decoded answer, or 'closed', 'silent' or 'undecodable ...'."""

    label: str
    api_key: int
    version: int
    sent: bytes
    answer: Any


class Side:
    """A server during one run of one case."""

    def __init__(self, server: Server, case_name: str, version: int, principal: str | None = None) -> None:
        self.server = server
        self.principal = principal
        self.case_name = case_name
        self.version = version
        self.exchanges: list[Exchange] = []
        self._connection: Connection | None = None
        self._for_set_up: Connection | None = None

    # ------------------------------------------------------------------------------------- recorded

    def ask(self, request: Any, label: str = "", *, patience: float = ANSWER_SECONDS) -> Any:
        """Sends a request; records and returns its answer (a string if none came in `patience` s)."""
        self.connection.socket.settimeout(patience)
        return self.ask_bytes(request.API_KEY, request.API_VERSION, encode(request), label)

    def ask_own_id(self, request: Any, label: str) -> Any:
        """As `ask`, for a request with an id that is the server's own (its node's, a session's): the two
        sides' bytes may differ.
        """
        answer = self._exchange(request.API_KEY, request.API_VERSION, encode(request))
        self.exchanges.append(Exchange(label, request.API_KEY, request.API_VERSION, b"own id", answer))
        return answer

    def ask_with_ids(self, build: Callable[[Sequence[int]], Any], ids: Sequence[int], label: str = "") -> Any:
        """As `ask`, for a request with producer ids that the server chose. It is built twice: what the two
        sides' bytes are compared by has other numbers in their place.
        """
        request = build(ids)
        compared = encode(build([FIRST_STAND_IN + n for n in range(len(ids))]))
        self.connection.socket.settimeout(ANSWER_SECONDS)
        answer = self._exchange(request.API_KEY, request.API_VERSION, encode(request))
        name = label or f"#{len(self.exchanges)}"
        self.exchanges.append(Exchange(name, request.API_KEY, request.API_VERSION, compared, answer))
        return answer

    def ask_body(self, api_key: int, version: int, body: bytes, label: str = "") -> Any:
        """As `ask`, with any body behind a good header."""
        return self.ask_bytes(api_key, version, frame(header(api_key, version) + body), label)

    def ask_token(self, token: bytes, label: str) -> bytes | str:
        """A frame that is a token and nothing else, after SaslHandshake 0; the server's, or 'closed'."""
        self.connection.send(frame(token))
        answer = self.connection.receive(smallest=0)
        heard = "closed" if answer is None else answer
        self.exchanges.append(Exchange(label, SASL_AUTHENTICATE, 0, frame(token), heard))
        if answer is None:
            self.hang_up()
        return heard

    def ask_bytes(self, api_key: int, version: int, data: bytes, label: str = "") -> Any:
        """As `ask`, with any bytes at all."""
        answer = self._exchange(api_key, version, data)
        self.exchanges.append(Exchange(label or f"#{len(self.exchanges)}", api_key, version, data, answer))
        return answer

    def tell(self, request: Any, label: str = "") -> None:
        """Sends a request that gets no answer (Produce with acks=0): what comes next shows that none came."""
        data = encode(request, correlation_id=0)
        self.connection.send(data)
        self.exchanges.append(
            Exchange(label or "told", request.API_KEY, request.API_VERSION, data, "nothing")
        )

    def start(self, request: Any, label: str) -> Started:
        """Sends a request on a connection of its own: its answer is asked for later, and recorded then."""
        data = encode(request)
        connection = self._connect()
        connection.send(data)
        return Started(self, connection, request, data, label)

    def chosen(self, member_id: str) -> str:
        """Notes a member id that the server chose; the two sides' are the same from here on."""
        if member_id and member_id not in self.server.member_ids:
            self.server.member_ids.append(member_id)
        return member_id

    def chosen_producer(self, producer_id: int) -> int:
        """As `chosen`, for a producer id: whoever has it is known by its number from here on."""
        self.server.producer_ids.setdefault(producer_id, len(self.server.producer_ids))
        return producer_id

    def _exchange(self, api_key: int, version: int, data: bytes) -> Any:
        connection = self.connection
        try:
            connection.send(data)
            answer = connection.receive()
            if answer is not None:
                return decode(api_key, version, answer) if api_key in MESSAGES else answer
            outcome = "closed"
        except ConnectionError:
            outcome = "closed"
        except TimeoutError:
            outcome = "silent"
        except UndecodableError as error:
            outcome = f"undecodable: {error}"
        self.hang_up()
        return outcome

    @property
    def connection(self) -> Connection:
        """The one that the case asks on, as its principal."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        if self.principal is None:
            return Connection(self.server.bootstrap, timeout=ANSWER_SECONDS)
        connection = Connection(self.server.sasl, timeout=ANSWER_SECONDS)
        if self.principal != NOBODY:
            log_in(connection, self.principal)
        return connection

    @property
    def for_set_up(self) -> Connection:
        """One that may do everything; nothing on it is recorded."""
        if self.principal is None:
            return self.connection
        if self._for_set_up is None:
            self._for_set_up = Connection(self.server.bootstrap, timeout=ANSWER_SECONDS)
        return self._for_set_up

    def hang_up(self) -> None:
        """The case's own connection: the next question comes on another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """All of them."""
        self.hang_up()
        if self._for_set_up is not None:
            self._for_set_up.close()
            self._for_set_up = None

    # --------------------------------------------------------------------------------------- set-up

    def name(self, suffix: str) -> str:
        """A topic name of this case, the same on both sides; versions share it."""
        plain = f"{self.server.run}-{self.case_name}-{suffix}"
        # Kafka refuses names that differ only in '.' and '_': use neither.
        return plain.replace(".", "-").replace("_", "-")

    def own_name(self, suffix: str) -> str:
        """A topic name of this case and version alone."""
        return self.name(f"{suffix}-v{self.version}")

    def topic(self, suffix: str, partitions: int = 1, **configs: str) -> str:
        """A topic that the versions of this case share; made when first asked for."""
        return self._make(self.name(suffix), partitions, configs)

    def own_topic(self, suffix: str, partitions: int = 1, **configs: str) -> str:
        """A topic of this case and version alone: empty at first."""
        return self._make(self.own_name(suffix), partitions, configs)

    def plain_topic(self, suffix: str) -> str:
        """As `topic`, with no configs at all."""
        name = self.name(suffix)
        if name not in self.server.topic_ids:
            self._create(name, 1, {})
            self.server.topic_ids[name] = self.settle(name)
        return name

    def _make(self, name: str, partitions: int, configs: dict[str, str]) -> str:
        if name not in self.server.topic_ids:
            # The samples' times are long past: without this Kafka deletes them after some minutes.
            self._create(name, partitions, {"retention_ms": "-1"} | configs)
            self.server.topic_ids[name] = self.settle(name, partitions)
        return name

    def _create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        topic = CreateTopicsRequest.CreatableTopic
        config = topic.CreatableTopicConfig
        answer = self._quietly(
            CreateTopicsRequest(
                version=5,
                topics=[
                    topic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=-1,
                        assignments=[],
                        configs=[config(name=k.replace("_", "."), value=v) for k, v in configs.items()],
                    )
                ],
                timeout_ms=10_000,
                validate_only=False,
            )
        )
        if answer.topics[0].error_code != NO_ERROR:
            raise RuntimeError(f"{self.server.name} cannot create {name}: {answer}")

    def settle(self, name: str, partitions: int = 1) -> uuid.UUID:
        """Waits until the topic is there whole (-1: any number of partitions) and has leaders; its id."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            answer = self._quietly(
                MetadataRequest(
                    version=10,
                    topics=[MetadataRequest.MetadataRequestTopic(topic_id=None, name=name)],
                    allow_auto_topic_creation=False,
                )
            )
            topic = answer.topics[0]
            wanted = len(topic.partitions) if partitions < 0 else partitions
            whole = len(topic.partitions) == wanted and all(
                p.error_code == NO_ERROR for p in topic.partitions
            )
            if topic.error_code == NO_ERROR and whole and self._leads(name, wanted):
                found: uuid.UUID = topic.topic_id
                self.server.topic_ids[name] = found
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.server.name} does not show {name}: {answer}")
            time.sleep(0.01)

    def _leads(self, name: str, partitions: int) -> bool:
        """Metadata comes before the log in Kafka: a topic is ready once its partitions answer."""
        of = ListOffsetsRequest.ListOffsetsTopic
        answer = self._quietly(
            ListOffsetsRequest(
                version=5,
                replica_id=-1,
                isolation_level=0,
                topics=[
                    of(
                        name=name,
                        partitions=[
                            of.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=-1)
                            for n in range(partitions)
                        ],
                    )
                ],
            )
        )
        return all(p.error_code == NO_ERROR for t in answer.topics for p in t.partitions)

    def settle_producer_ids(self) -> None:
        """Waits until producers get ids: Kafka fetches its first block of them when one is asked for."""
        await_producer_ids(self.for_set_up)

    def id_of(self, name: str) -> uuid.UUID:
        """A topic's id on this server; for a name unknown here, an id that no topic has."""
        known = self.server.topic_ids.get(name)
        return known or uuid.UUID(bytes=hashlib.md5(name.encode()).digest())

    def put(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """Appends batches, unrecorded."""
        of = ProduceRequest.TopicProduceData
        for records in batches:
            answer = self._quietly(
                ProduceRequest(
                    version=9,
                    transactional_id=None,
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[
                        of(
                            name=topic,
                            partition_data=[of.PartitionProduceData(index=partition, records=records)],
                        )
                    ],
                )
            )
            result = answer.responses[0].partition_responses[0]
            if result.error_code != NO_ERROR:
                raise RuntimeError(f"{self.server.name} refuses a batch of the set-up: {result}")

    def once(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """As `put`, but only into an empty partition: for topics that the versions share."""
        if (topic, partition) not in self.server.filled:
            self.put(topic, *batches, partition=partition)
            self.server.filled.add((topic, partition))

    def until(self, request: Any, is_so: Callable[[Any], bool]) -> None:
        """Waits until the answer is so: what was changed is told a moment later. It is not compared."""
        _until(lambda: is_so(self._quietly(request)), "what was changed is not told")

    def _quietly(self, request: Any) -> Any:
        return self.for_set_up.ask(request)


@dataclass
class Started:
    """A request that waits for its answer on a connection of its own."""

    side: Side
    connection: Connection
    request: Any
    data: bytes
    label: str

    def answer(self) -> Any:
        """The answer, recorded; 'silent' if it does not come."""
        request = self.request
        try:
            received = self.connection.receive()
            answer = "closed" if received is None else decode(request.API_KEY, request.API_VERSION, received)
        except TimeoutError:
            answer = "silent"
        finally:
            self.connection.close()
        self.side.exchanges.append(
            Exchange(self.label, request.API_KEY, request.API_VERSION, self.data, answer)
        )
        return answer
