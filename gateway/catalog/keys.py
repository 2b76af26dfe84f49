"""The keys of the catalog, and the values that have no class of their own.

/cluster                              the cluster: id, format
/stores/<id>                          a store: incarnation, name (ids from 1000)
/store-lives/<incarnation>            what was seen last of a store: a start's nonce, and a commit of it
/topics/<name>                        a topic: id, partitions, replication factor, configs
/partitions/<topic id>/<index>        a partition that was written to: a number above all its epochs, leader
                                      epochs, log start
/segments/<topic id>/<index>/<start>  a segment (`gateway.log.segment`)
/closing/<address>                    a closed segment's end that some members have not confirmed, and its log
/tombstones/<topic id>                a deleted topic that some members still keep
/replacing/<incarnation>              a store whose place another one takes: the new one's incarnation
/broker-configs/<node id or cluster>  broker configs that were set while a gateway ran, by name
/dropped/<address>                    a segment that left its chain, for the members to forget, and its log
/left-over/<address>                  a segment that an import knew of by a note which it did not take
/compacting/<address>                 a segment that a compaction writes, and that is in no chain yet; its log
/producers/<topic id>/<index>         the idempotent producers of a partition that has no segment left
/producer-ids                         the first producer id that no block has covered
/leader-epoch                         the highest leader epoch that was ever drawn
/lineage                              the name of this catalog's history (`gateway.cluster.lineage`)
/lives/<life>                         where a gateway's life lies in that history
/lives-before                         how far the lives went that were forgotten
/alive/<gateway id>                   that a gateway is alive, and in which life (`gateway.cluster.alive`)
/draining/<gateway id>                that a gateway is to lead nothing (`gateway.cluster.gateway_orders`)
/leaving/<gateway id>                 that a gateway gives away what it leads, and in which life
/missed/<gateway id>/<gateway id>     that the second one finds the process of the first gone
/standbys/<gateway id>/<life>         that a process waits to take a gateway's place
/gateways/<gateway id>                what a gateway says of itself (`gateway.leadership.records`)
/slots/<slot>                         who leads the partitions of a slot (`gateway.leadership`)
/preferred/<topic id>/<index>         who is to lead a partition (`gateway.cluster.preferred_leaders`)
/features                             the levels of features that are in effect (`gateway.cluster.features`)
/registered                           which gateway has said last what it can, and in which life
/acls/<digest>                        an ACL (`gateway.cluster.acls`)
/scram/<user>                         what is kept of a user's passwords (`gateway.cluster.scram_users`)
/quotas/<digest>                      the quotas of an entity (`gateway.cluster.quotas`)
/scram-secret                         makes salts for users that there are not
/tokens/<id>                          a delegation token (`gateway.cluster.delegation_tokens`)
/native/<topic id>/<address>          a native address of a topic (`gateway.cluster.native_addresses`)

Which compares a transaction needs that changes one of them: `gateway.catalog.fence_rules`.
"""

import json
from typing import Any, Final
from urllib.parse import quote, unquote

CLUSTER = "/cluster"
STORES = "/stores/"
STORE_LIVES = "/store-lives/"
TOPICS = "/topics/"
PARTITIONS = "/partitions/"
SEGMENTS = "/segments/"
CLOSING = "/closing/"
TOMBSTONES = "/tombstones/"
SEGMENT_TOMBSTONES = "/dropped/"
REPLACING = "/replacing/"
BROKER_CONFIGS = "/broker-configs/"
COMPACTING = "/compacting/"
LEFT_OVER = "/left-over/"
PRODUCERS = "/producers/"
NATIVE = "/native/"
PRODUCER_IDS = "/producer-ids"
LEADER_EPOCH = "/leader-epoch"
LINEAGE = "/lineage"
LIVES = "/lives/"
LIVES_BEFORE = "/lives-before"
ALIVE = "/alive/"
DRAINING = "/draining/"
LEAVING = "/leaving/"
MISSED = "/missed/"
STANDBYS = "/standbys/"
SLOTS = "/slots/"
GATEWAYS = "/gateways/"
PREFERRED = "/preferred/"
FEATURES = "/features"
REGISTERED = "/registered"
ACLS = "/acls/"
QUOTAS = "/quotas/"
SCRAM = "/scram/"
SCRAM_SECRET = "/scram-secret"  # noqa: S105 - a key, and no secret
TOKENS = "/tokens/"

OF_SECURITY = (ACLS, SCRAM, SCRAM_SECRET, QUOTAS)
"""What the keys begin with that say who may come in, who may do what, and how much."""

FORMAT = 2
"""Highest version of the keys and values that is known here; a newer one in a catalog is refused."""

FORMAT_BEFORE_FEATURES = 1
"""Of a catalog in which no feature is at a higher level than before there were levels: gateways of releases
that do not look at `/features` may share it."""


def scram_key(user: str) -> str:
    """The key of a user, whatever his name has."""
    return SCRAM + quote(user, safe="")


def user_of_scram(key: str) -> str:
    """The user whose `scram_key` this is."""
    return unquote(key.removeprefix(SCRAM))


def token_key(token_id: str) -> str:
    return TOKENS + token_id


def token_of(key: str) -> str:
    """The id of the delegation token whose `token_key` this is."""
    return key.removeprefix(TOKENS)


def alive_key(gateway: int) -> str:
    return f"{ALIVE}{gateway}"


def draining_key(gateway: int) -> str:
    return f"{DRAINING}{gateway}"


def leaving_key(gateway: int) -> str:
    return f"{LEAVING}{gateway}"


def gateway_in(key: str) -> int | None:
    """The gateway whose `alive_key` this is; None: it is nobody's."""
    return _gateway(key.removeprefix(ALIVE))


def missed_key(gateway: int, by: int) -> str:
    """That this gateway is missed by that one."""
    return f"{MISSED}{gateway}/{by}"


def missed_in(key: str) -> tuple[int, int] | None:
    """Both, of a `missed_key`; None: it is none."""
    gateway, _, by = key.removeprefix(MISSED).partition("/")
    both = _gateway(gateway), _gateway(by)
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def _gateway(number: str) -> int | None:
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= 3 else None


def standbys_of(gateway: int) -> str:
    """How the keys of those begin who wait to take a gateway's place."""
    return f"{STANDBYS}{gateway}/"


def gateway_key(gateway: int) -> str:
    return f"{GATEWAYS}{gateway}"


def preferred_key(topic_id: bytes, index: int) -> str:
    return f"{PREFERRED}{topic_id.hex()}/{index:06d}"


def of_preferred(key: str) -> tuple[bytes, int]:
    """The topic's id and the partition's index of a `preferred_key`. Raises ValueError: it is none."""
    topic_id, _, index = key.removeprefix(PREFERRED).partition("/")
    return bytes.fromhex(topic_id), int(index)


def store_life_key(incarnation: str) -> str:
    return STORE_LIVES + incarnation


def topic_key(name: str) -> str:
    return TOPICS + name


def partition_key(topic_id: bytes, index: int) -> str:
    return f"{PARTITIONS}{topic_id.hex()}/{index:06d}"


def segments_prefix(topic_id: bytes) -> str:
    return f"{SEGMENTS}{topic_id.hex()}/"


def log_name(topic_id: bytes, index: int) -> str:
    """A partition's name for good, as notes about its segments and the stores have it."""
    return f"{topic_id.hex()}/{index}"


def of_log(log: str) -> tuple[bytes, int]:
    """The topic's id and the partition's index in such a name."""
    topic_id, _, index = log.partition("/")
    return bytes.fromhex(topic_id), int(index)


def noted_log(note: bytes) -> str:
    """The log that a note (`/closing/`, `/dropped/`, `/compacting/`) says it is about, as `pack` has made it;
    "" if it does not say so. For each note of each transaction, so nothing else of it is read.
    """
    _, found, rest = note.partition(b'"log":"')
    return rest[: rest.index(b'"')].decode() if found else ""


def partition_segments(topic_id: bytes, index: int) -> str:
    """How the keys of a partition's segments begin; they are in the order of its offsets."""
    return f"{segments_prefix(topic_id)}{index:06d}/"


def partition_of_segment(key: str) -> tuple[bytes, int]:
    """The topic's id and the partition's index of such a key."""
    topic_id, index, _ = key.removeprefix(SEGMENTS).split("/")
    return bytes.fromhex(topic_id), int(index)


def address_of_segment(key: str) -> str:
    """The segment's address, which such a key ends with, and so does one about the segment."""
    return key.rpartition("/")[2].rpartition("-")[2]


def segment_key(topic_id: bytes, index: int, start_offset: int, address: str) -> str:
    return f"{partition_segments(topic_id, index)}{start_offset:020d}-{address}"


def tombstone_key(topic_id: bytes) -> str:
    return TOMBSTONES + topic_id.hex()


def segment_tombstone_key(address: str) -> str:
    return SEGMENT_TOMBSTONES + address


def compacting_key(address: str) -> str:
    return COMPACTING + address


def left_over_key(address: str) -> str:
    return LEFT_OVER + address


def producers_key(topic_id: bytes, index: int) -> str:
    return f"{PRODUCERS}{topic_id.hex()}/{index:06d}"


def native_prefix(topic_id: bytes) -> str:
    """How the keys of the native addresses of a topic begin."""
    return f"{NATIVE}{topic_id.hex()}/"


def native_key(topic_id: bytes, address: str) -> str:
    return native_prefix(topic_id) + quote(address, safe="")


def native_address_of(key: str) -> tuple[bytes, str]:
    """The topic's id and the address of such a key."""
    topic_id, _, address = key.removeprefix(NATIVE).partition("/")
    return bytes.fromhex(topic_id), unquote(address)


def replacing_key(incarnation: str) -> str:
    return REPLACING + incarnation


def broker_configs_key(node: int | None) -> str:
    """The key of the configs of one node, or of all of them (None)."""
    return f"{BROKER_CONFIGS}{'cluster' if node is None else node}"


def closing_key(address: str) -> str:
    return CLOSING + address


# `json.dumps` makes an encoder for each call that names separators, and `json.loads` looks for an encoding.
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_decode: Final = json.JSONDecoder().decode


def pack(value: Any) -> bytes:
    return _encode(value).encode()


def unpack(value: bytes) -> Any:
    return _decode(value.decode())
