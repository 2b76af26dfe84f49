"""A Kafka server that answers as a test tells it: one thread, blocking sockets, a free port of 127.0.0.1."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.requests import decode_request
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

Answer = Callable[[Any], Any]

CLUSTER = "fake-cluster"
TOPIC_ID = UUID(int=7)


class FakeKafka:
    """By default one broker, itself, with the topics in `topics` (name -> partitions), all of them empty.

    `answers` maps an API key to a function from decoded request to response; None closes the connection.
    `versions` is what ApiVersions tells. `requests` are those that came. With `tls`, a certificate and its
    key, it speaks TLS. What is no request is hung up on. A context manager.
    """

    def __init__(self, topics: dict[str, int] | None = None, tls: tuple[Path, Path] | None = None) -> None:
        self.topics = {"orders": 2} if topics is None else topics
        self.versions = {key: REQUEST_CLASSES[key].valid_versions for key in ANSWERED}
        self.cluster_id = CLUSTER
        self.advertised: tuple[str, int] | None = None
        self.ends: dict[tuple[str, int], int] = {}
        self.requests: list[Any] = []
        self.raw_answer: bytes | None = None
        self.answers: dict[int, Answer] = {
            ApiKey.API_VERSIONS: self.api_versions,
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.describe_cluster,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.FETCH: self.fetch,
        }
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*tls)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # shutdown, not close: it wakes the thread that accepts.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while (head := stream.read(4)) and head[0] == 0:
                    answer = self._answer(memoryview(stream.read(struct.unpack(">i", head)[0])))
                    if answer is None:
                        return
                    connection.sendall(answer)
        except OSError:
            return  # the test is over

    def _answer(self, frame: memoryview) -> bytes | None:
        if self.raw_answer is not None:
            return self.raw_answer
        header = parse_request_header(frame)
        key, version = header.api_key, header.api_version
        request = decode_request(key, version, frame, header.body_offset)
        self.requests.append(request)
        answer = self.answers[key](request)
        if answer is None:
            return None
        is_refusal = key == ApiKey.API_VERSIONS and answer.error_code == 35
        return encode_response(answer, 0 if is_refusal else version, header.correlation_id)

    def api_versions(self, _: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.API_VERSIONS]
        keys = [
            cls.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return cls(error_code=0, api_keys=keys)

    def metadata(self, request: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.METADATA]
        host, port = self.advertised or ("127.0.0.1", self.port)
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        return cls(
            brokers=[cls.MetadataResponseBroker(node_id=1, host=host, port=port, rack=None)],
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=[self.topic_metadata(name) for name in names],
        )

    def topic_metadata(self, name: str) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.METADATA].MetadataResponseTopic
        partitions = [
            cls.MetadataResponsePartition(
                error_code=0,
                partition_index=n,
                leader_id=1,
                leader_epoch=0,
                replica_nodes=[1],
                isr_nodes=[1],
                offline_replicas=[],
            )
            for n in range(self.topics.get(name, 0))
        ]
        return cls(
            error_code=0 if name in self.topics else 3,
            name=name,
            topic_id=TOPIC_ID if name in self.topics else None,
            is_internal=name.startswith("__"),
            partitions=partitions,
        )

    def describe_cluster(self, _: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CLUSTER]
        return cls(error_code=0, error_message=None, cluster_id=self.cluster_id, controller_id=1, brokers=[])

    def list_offsets(self, request: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.LIST_OFFSETS]
        row = cls.ListOffsetsTopicResponse
        return cls(
            topics=[
                row(
                    name=topic.name,
                    partitions=[
                        row.ListOffsetsPartitionResponse(
                            partition_index=p.partition_index,
                            error_code=0,
                            timestamp=-1,
                            offset=0
                            if p.timestamp == -2
                            else self.ends.get((topic.name, p.partition_index), 0),
                            leader_epoch=0,
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def fetch(self, request: Any, records: bytes = b"", error_code: int = 0) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.FETCH]
        row = cls.FetchableTopicResponse
        return cls(
            error_code=0,
            session_id=0,
            responses=[
                row(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        row.PartitionData(
                            partition_index=p.partition,
                            error_code=error_code,
                            high_watermark=0,
                            last_stable_offset=0,
                            log_start_offset=0,
                            aborted_transactions=[],
                            records=records,
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )


ANSWERED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DELETE_RECORDS,
)
