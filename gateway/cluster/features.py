"""The levels of features that are in effect in a cluster, and how they are raised (KIP-584).

Rule: **a gateway takes part from the transaction on that registers it**, which compares the levels
(`/features`) that it has found itself able to do, and puts its record and `/registered`. Whoever changes the
levels compares both of these, and looks at all records that there are then. So of a change and a gateway that
starts at the same moment one comes first, and the other one sees it: the change counts the gateway, or the
gateway finds the new level and refuses to start. Before it has registered a gateway has changed nothing but
its own life and its place (which compares the levels, too), and leads nothing.

Rule: all that were not removed count, alive or not (as brokers that are fenced do for Kafka): who is away may
come back. And of those that are alive only what they have said in their present life counts.

Rule: gateways of releases from before there were levels do not look at these; they look at the catalog's
format, and do so after their place is theirs. So the first level that they cannot do is raised in two steps:
the format first (`keys.FORMAT`), which keeps out all that come later, then, after another look at those that
have come before, the level.

Rule: a transaction that puts what needs a level compares `/features` and puts `/registered` as it was
(`Features.needed`), and a level is lowered only where nothing is there that needs it, by comparing both. So
neither comes behind the other's back.

A level is in effect on a gateway when its catalog shows it: `gateway.cluster.following` reads it then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, unchanged
from gateway.cluster.feature_levels import (
    LEVELS_BEFORE,
    OF_THIS_RELEASE,
    PREFERRED_LEADERS,
    TRANSACTION_VERSION,
    FeatureState,
    Supported,
    are_as_before,
    highest_levels,
    lacking,
    levels_of_text,
    supported_by,
)
from gateway.common.failures import ProcessEnds
from gateway.leadership.records import (
    BadRecord,
    FinalizedFeatures,
    GatewayRecord,
    pack_features,
    pack_gateway,
    unpack_alive,
    unpack_features,
    unpack_gateway,
)
from mesh.data_directory import EXIT_DATA_REFUSED
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog, Entry

VARIABLE: Final = "DAFKA_TEST_FEATURES"
"""What another release can, for tests of an upgrade: `name:lowest-highest`, separated by commas."""

_of_another_release = os.environ.get(VARIABLE)
try:
    SUPPORTED: Final[Supported] = (
        OF_THIS_RELEASE if _of_another_release is None else levels_of_text(_of_another_release)
    )
except ValueError as error:
    raise SystemExit(f"{VARIABLE}: {error}") from None

NEEDING: Final[Mapping[str, str]] = {
    PREFERRED_LEADERS: keys.PREFERRED,
    TRANSACTION_VERSION: keys.topic_key("__transaction_state"),
}
"""Feature -> what the keys begin with that need it: while there are some its level is not lowered."""

logger = logging.getLogger(__name__)


class FeatureMissing(ProcessEnds):
    """The cluster has a feature at a level that this gateway cannot do."""

    exit_code = EXIT_DATA_REFUSED


Decide = Callable[[FeatureState], Mapping[str, int]]
"""What there is -> the levels that there shall be of some features. Raises KafkaError."""


class Features:
    """As one gateway knows them: `read` takes what the catalog says."""

    def __init__(
        self,
        catalog: Catalog,
        node_id: int,
        release: str = "",
        supported: Supported = SUPPORTED,
    ) -> None:
        """`release`: this gateway's, for people."""
        self.supported = supported
        self.finalized = LEVELS_BEFORE
        self._catalog = catalog
        self._node_id = node_id
        self._release = release
        self._revision = 0
        """Of the key, when it was read last."""

    def level(self, feature: str) -> int:
        """The level that is in effect."""
        return self.finalized.levels.get(feature, LEVELS_BEFORE.levels.get(feature, 0))

    def compare(self) -> Compare:
        """That the levels are those that were read last: for a transaction that puts what needs one."""
        return Compare(keys.FEATURES, self._revision)

    def needed(self, feature: str) -> tuple[list[Compare], dict[str, bytes]]:
        """What a transaction compares and puts besides that puts what needs a feature: that it is in effect,
        and something that whoever lowers its level compares, and finds changed. Raises KafkaError:
        UNSUPPORTED_VERSION, not all gateways can do it, or nobody has said yet that all are to.
        """
        if not self.level(feature):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"this needs feature {feature}, which is at level 0 as for gateways of an older release: "
                "when all of them are upgraded 'dafka gateways upgrade' raises it (or kafka-features)",
            )
        there = self._catalog.get(keys.REGISTERED)
        value = keys.pack({}) if there is None else there.value
        return [self.compare(), *unchanged(self._catalog, [keys.REGISTERED])], {keys.REGISTERED: value}

    def read(self) -> None:
        """Take what the catalog says. Raises FeatureMissing: this gateway cannot do it."""
        entry = self._catalog.get(keys.FEATURES)
        self.check(None if entry is None else entry.value)
        finalized = LEVELS_BEFORE if entry is None else unpack_features(entry.value)
        self._revision = 0 if entry is None else entry.mod_revision
        if finalized.levels != self.finalized.levels and self.finalized.epoch:
            logger.info("levels of features are now: %s", _shown(finalized.levels))
        self.finalized = finalized

    def check(self, value: bytes | None) -> None:
        """Whether this gateway can do these levels. Raises FeatureMissing."""
        try:
            finalized = LEVELS_BEFORE if value is None else unpack_features(value)
        except BadRecord as error:
            raise FeatureMissing(
                f"{self._catalog.where}: the levels of the cluster's features cannot be read ({error}). "
                "Start the release that has written them"
            ) from None
        missing = lacking(self.supported, finalized)
        if missing:
            raise FeatureMissing(
                f"{self._catalog.where}: the cluster's {missing} ({self._release}). Start "
                f"release {finalized.release or 'that the other gateways have'}, which has set the level, or "
                "a newer one"
            )

    def of_new_cluster(self, *, rebuilt: bool) -> bytes | None:
        """The value that a new cluster begins with; what a catalog has that was read back stays as it is
        (None: it has none, and goes on as before there were levels).
        """
        if rebuilt:
            entry = self._catalog.get(keys.FEATURES)
            return None if entry is None else entry.value
        return pack_features(highest_levels(self.supported, self._release))

    # registration -----------------------------------------------------------------------------------------

    async def register(self, life: str, name: str, rack: str) -> None:
        """Say what this gateway can, in this life: from now on it counts. How clients reach it stays as it is
        known. Raises FeatureMissing, BadRecord.
        """
        key = keys.gateway_key(self._node_id)
        while True:
            self.read()
            there = _record(self._catalog.get(key))
            listeners = {} if there is None else there.listeners
            record = GatewayRecord(name, rack, listeners, self.supported, self._release, life)
            puts = {
                key: pack_gateway(record),
                keys.REGISTERED: keys.pack({"gateway": self._node_id, "life": life}),
            }
            try:
                await self._catalog.transact([self.compare(), *unchanged(self._catalog, puts)], puts)
            except CompareFailed:
                continue
            return

    # changes ----------------------------------------------------------------------------------------------

    def state(self) -> FeatureState:
        """What there is at this moment. A gateway whose record cannot be read can do nothing."""
        records = {
            int(number): _record(entry) or GatewayRecord("", "", {}, {}, "")
            for entry in self._catalog.range(keys.GATEWAYS)
            if (number := entry.key.removeprefix(keys.GATEWAYS)).isdecimal()
        }
        alive = {
            living: _life(entry)
            for entry in self._catalog.range(keys.ALIVE)
            if (living := keys.gateway_in(entry.key)) is not None
        }
        supported = {number: supported_by(record) for number, record in records.items()}
        if not alive:  # this gateway has the catalog for itself
            supported[self._node_id] = self.supported
            return FeatureState(self._now(), supported, in_use=self._in_use())
        # Releases from before do not say in which life they have said it, and can do nothing of this.
        starting = {
            number
            for number, life in alive.items()
            if number not in records or records[number].life not in ("", life)
        }
        gone = frozenset(records.keys() - alive.keys())
        return FeatureState(self._now(), supported, frozenset(starting), gone, self._in_use())

    def _in_use(self) -> dict[str, str]:
        return {
            name: f"the catalog has {', '.join(one.key for one in found)}, and maybe more"
            for name, prefix in NEEDING.items()
            if (found := self._catalog.range(prefix, limit=1))
        }

    def _now(self) -> FinalizedFeatures:
        entry = self._catalog.get(keys.FEATURES)
        return LEVELS_BEFORE if entry is None else unpack_features(entry.value)

    async def change(self, decide: Decide) -> None:
        """Have other levels in effect; what `decide` raises leaves all as it was. It is asked again where
        something is different meanwhile. Raises KafkaError: what it raises.
        """
        has_raised_format = False
        while True:
            compares = unchanged(self._catalog, [keys.FEATURES, keys.REGISTERED, keys.CLUSTER])
            state = self.state()
            try:
                levels = {**state.finalized.levels, **decide(state)}
            except KafkaError:
                if has_raised_format:
                    await self._lower_format()
                raise
            if levels == dict(state.finalized.levels):
                await self._lower_format()  # where a change was given up between its two steps
                return
            is_new = not are_as_before(levels)
            if is_new and await self._raise_format():
                has_raised_format = True
                continue
            value = pack_features(
                state.finalized._replace(
                    epoch=state.finalized.epoch + 1, levels=levels, release=self._release
                )
            )
            format_ = keys.FORMAT if is_new else keys.FORMAT_BEFORE_FEATURES
            puts = {keys.FEATURES: value, **self._with_format(format_)}
            try:
                await self._catalog.transact(compares, puts)
            except CompareFailed:
                continue
            return

    def _with_format(self, wanted: int) -> dict[str, bytes]:
        """What puts the catalog's format, if it is another one."""
        entry = self._catalog.get(keys.CLUSTER)
        cluster = None if entry is None else keys.unpack(entry.value)
        if cluster is None or cluster["format"] == wanted:
            return {}
        return {keys.CLUSTER: keys.pack({**cluster, "format": wanted})}

    async def _lower_format(self) -> None:
        """Have releases from before there were levels take part, unless they cannot do one that there is."""
        while are_as_before(self._now().levels):
            puts = self._with_format(keys.FORMAT_BEFORE_FEATURES)
            if not puts:
                return
            try:
                await self._catalog.transact(unchanged(self._catalog, [keys.FEATURES, *puts]), puts)
            except CompareFailed:
                continue

    async def _raise_format(self) -> bool:
        """Keep releases from before there were levels out; whether they could take part until now."""
        while puts := self._with_format(keys.FORMAT):
            try:
                await self._catalog.transact(unchanged(self._catalog, puts), puts)
            except CompareFailed:
                continue
            return True
        return False


def _record(entry: Entry | None) -> GatewayRecord | None:
    try:
        return None if entry is None else unpack_gateway(entry.value)
    except BadRecord:
        return None


def _life(alive: Entry) -> str | None:
    try:
        return unpack_alive(alive.value).life
    except BadRecord:
        return None


def _shown(levels: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {level}" for name, level in sorted(levels.items()))
