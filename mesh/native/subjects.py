"""The subjects that a gateway hears on its one node: whose a native message is.

It hears them from stores alone (`mesh.protocol.native_watchers`), and subscribes to nothing for them: what is
subscribed to can never be taken back, as whoever is subscribed to counts it.
"""

from collections.abc import Callable

from mesh.native.hearing import Hearing
from mesh.node import Node
from mesh.protocol.native_order import Begin, Limits
from mesh.requests import Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import DirectRecords, End, TakenUp
from wireproto.dafka.messages import DirectHead, DirectRecord, named_heads_prefix

LIMITS = Limits(
    ready_bytes=8 * 1024 * 1024,
    reorder_bytes=8 * 1024 * 1024,
    tries_before_skip=300,
    fetches_at_once=128,
    compared_records=256,
    compared_ahead=4096,
    fetch_records=4096,
)
"""Of one topic of a gateway. What a store of several has dropped another one may still have, which starts
just now: ten minutes pass before it is believed that nobody has it. All stores answer a FETCH, so what they
have is compared, as far as their answers come one soon after the other."""


class NativeSubjects:
    """Of one gateway life. `hear` a subject, `run` what it gives, `leave` it."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self.requests = requests
        self._node = node
        self._by_requester: dict[str, Hearing] = {}
        for answered in (ids.DIRECT_HEAD, ids.DIRECT_RECORDS):
            node.subscribe(answered + requests.prefix.encode())
        node.subscribe(named_heads_prefix(requests.prefix))

    @property
    def life(self) -> str:
        """How the addresses begin that this gateway makes."""
        return self.requests.prefix

    def hear(self, subject: str, begin: Begin, arrived: Callable[[], None]) -> Hearing:
        """Its records come from now on, as `Hearing` says.

        Raises ValueError for a subject over 255 bytes or with a NUL inside.
        """
        requester = self.requests.new_id()
        hearing = Hearing(self._node, subject, requester, begin, arrived, LIMITS)
        self._by_requester[requester] = hearing
        return hearing

    def leave(self, hearing: Hearing) -> None:
        """Nobody hears it any more."""
        del self._by_requester[hearing.order.requester]

    def tell_stores(self, told: TakenUp) -> None:
        """Tell all stores, none of which answers."""
        self._node.send(told)

    def on_direct_head(self, head: DirectHead) -> None:
        hearing = self._by_requester.get(head.requester)
        if hearing is not None:
            hearing.on_direct_head(head)

    def on_direct_record(self, record: DirectRecord) -> None:
        """What a store or a native producer answers; the rest is for the gateway's own requests."""
        hearing = self._by_requester.get(record.requester)
        if hearing is None:
            self.requests.on_record(record)
        else:
            hearing.on_direct_record(record)
            hearing.tell()

    def on_direct_records(self, records: DirectRecords) -> None:
        """What a store answers."""
        hearing = self._by_requester.get(records.requester)
        if hearing is not None:
            hearing.on_direct_records(records)
            hearing.tell()

    def on_end(self, end: End) -> None:
        """As `on_direct_record`."""
        hearing = self._by_requester.get(end.requester)
        if hearing is None:
            self.requests.on_answer(end)
        else:
            hearing.on_end(end)
