"""What the commands ask of group coordinators, of a gateway or of any Kafka."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from dafka.commands.cluster import Cluster
from dafka.commands.coordinators import OF_GROUPS, Coordinators, Refused
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import KafkaClient, error_name
from gateway.groups.consumer_protocol import assigned_partitions
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import REQUEST_CLASSES

LIST_GROUPS_VERSION: Final = 4
DESCRIBE_GROUPS_VERSION: Final = 6
OFFSET_FETCH_VERSION: Final = 7
OFFSET_COMMIT_VERSION: Final = 8
DELETE_GROUPS_VERSION: Final = 2
"""The newest that name topics, and one group each: every Kafka from 2.5 on has them."""

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
"""The generation in an OffsetCommit that is an operator's, not a member's."""

REASONS: Final = {
    "UNKNOWN_MEMBER_ID": "its consumers are running. Stop them first.",
    "NON_EMPTY_GROUP": "its consumers are running. Stop them first.",
    "REBALANCE_IN_PROGRESS": "its consumers are running. Stop them first.",
    "GROUP_ID_NOT_FOUND": "there is no such group. 'dafka groups list' shows those that are there.",
    "UNKNOWN_TOPIC_OR_PARTITION": "it is not there. 'dafka topics list' shows the topics.",
}


class Member(NamedTuple):
    """One member of a group. `partitions` is None when the assignment is not a consumer's."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: dict[str, list[int]] | None


class Described(NamedTuple):
    """A group as its coordinator tells it."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: list[Member]


class Groups:
    """The groups of a cluster, found through a bootstrap connection. Raises KafkaTrouble, CommandFailed."""

    def __init__(self, bootstrap: KafkaClient, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(bootstrap, cluster, OF_GROUPS)

    def list(self) -> list[tuple[str, str, str]]:
        """(group, protocol type, state) of every group, by name."""
        found: set[tuple[str, str, str]] = set()
        for broker in self._cluster.metadata([]).brokers:
            answer = self._cluster.leader(broker.node_id).ask(
                ApiKey.LIST_GROUPS, LIST_GROUPS_VERSION, states_filter=[]
            )
            if answer.error_code:
                raise CommandFailed(f"cannot list groups: {error_name(answer.error_code)}. Try again.")
            found |= {(group.group_id, group.protocol_type, group.group_state) for group in answer.groups}
        return sorted(found)

    def describe(self, name: str) -> Described:
        """One group that is there."""
        answer = self._asked(
            name,
            lambda coordinator: coordinator.ask(
                ApiKey.DESCRIBE_GROUPS,
                DESCRIBE_GROUPS_VERSION,
                groups=[name],
                include_authorized_operations=False,
            ),
            lambda answer: answer.groups[0].error_code,
        )
        group = answer.groups[0]
        if group.group_state == "Dead":
            raise refusal(name, "GROUP_ID_NOT_FOUND")
        members = [
            Member(
                one.member_id,
                one.group_instance_id,
                one.client_id,
                one.client_host,
                assigned_partitions(bytes(one.member_assignment)) if one.member_assignment else {},
            )
            for one in group.members
        ]
        return Described(name, group.group_state, group.protocol_type, group.protocol_data, members)

    def committed(self, name: str) -> dict[tuple[str, int], int]:
        """(topic, partition) -> the offset that the group committed."""
        answer = self._asked(
            name,
            lambda coordinator: coordinator.ask(
                ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, group_id=name, topics=None, require_stable=False
            ),
            lambda answer: answer.error_code,
        )
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        }

    def commit(self, name: str, offsets: dict[tuple[str, int], int]) -> None:
        """Commit for a group without members."""
        topics: dict[str, list[Any]] = {}
        request: Any = REQUEST_CLASSES[ApiKey.OFFSET_COMMIT]
        for (topic, index), offset in offsets.items():
            topics.setdefault(topic, []).append(
                request.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
            )
        rows = [
            request.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
        self._asked(
            name,
            lambda coordinator: coordinator.ask(
                ApiKey.OFFSET_COMMIT,
                OFFSET_COMMIT_VERSION,
                group_id=name,
                generation_id_or_member_epoch=NO_GENERATION,
                member_id=NO_MEMBER,
                group_instance_id=None,
                topics=rows,
            ),
            lambda answer: max(
                (one.error_code for topic in answer.topics for one in topic.partitions), default=0
            ),
        )

    def delete(self, name: str) -> None:
        """Delete a group without members, and its offsets."""
        self._asked(
            name,
            lambda coordinator: coordinator.ask(
                ApiKey.DELETE_GROUPS, DELETE_GROUPS_VERSION, groups_names=[name]
            ),
            lambda answer: answer.results[0].error_code,
        )

    def _asked(self, name: str, ask: Callable[[KafkaClient], Any], error_of: Callable[[Any], int]) -> Any:
        """The answer, asked again while the coordinator is not ready. Raises CommandFailed."""
        try:
            return self._coordinators.ask(name, ask, error_of)
        except Refused as refused:
            raise refusal(name, refused.error) from None


def refusal(name: str, error: str) -> CommandFailed:
    """Names the cause and the next step."""
    reason = REASONS.get(error, "and the log of the gateway may say why. Try again.")
    return CommandFailed(f"group {name}: {error}, {reason}")
