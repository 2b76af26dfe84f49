"""A topic: its identity, its partitions, and the configs that take effect here."""

from dataclasses import dataclass, field

from gateway.configs.effective import EffectiveTopicConfigs
from gateway.log.partition import Partition


@dataclass(slots=True, eq=False)
class Topic:
    """`configs` are the overrides that were given; `settings` what is in force; `revision` the one that its
    key has in the catalog, as far as this gateway knows; `maker` on whose account its partitions are, "":
    on nobody's.
    """

    name: str
    id: bytes
    configs: dict[str, str]
    settings: EffectiveTopicConfigs
    replication_factor: int = 1
    internal: bool = False
    partitions: list[Partition] = field(default_factory=list)
    revision: int = 0
    maker: str = ""
    appended_records: int = 0
    appended_bytes: int = 0
    """Records, and bytes of their batches, that this life of the gateway has appended to it."""
    fetched_bytes: int = 0
    """Bytes of its batches that consumers were given."""
