"""The subjects that a gateway hears on its one node: whose a native message is.

Subscriptions are never taken back: what comes of a subject that nobody hears any more is dropped here.
"""

from collections.abc import Callable

from mesh.native.hearing import Hearing
from mesh.node import Node
from mesh.protocol.native_order import Begin
from mesh.requests import Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import End
from wireproto.dafka.messages import DirectHead, DirectRecord, Head, Record


class NativeSubjects:
    """Of one gateway life. `hear` a subject, `run` what it gives, `leave` it."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self._node = node
        self._requests = requests
        self._by_subject: dict[str, list[Hearing]] = {}
        self._by_requester: dict[str, Hearing] = {}
        node.subscribe(ids.DIRECT_HEAD + requests.prefix.encode())

    @property
    def life(self) -> str:
        """How the addresses begin that this gateway makes."""
        return self._requests.prefix

    def hear(self, subject: str, begin: Begin, arrived: Callable[[], None]) -> Hearing:
        """Its records come from now on, as `Hearing` says.

        Raises ValueError for a subject over 255 bytes or with a NUL inside.
        """
        requester = self._requests.new_id()
        hearing = self._by_requester[requester] = Hearing(self._node, subject, requester, begin, arrived)
        self._by_subject.setdefault(subject, []).append(hearing)
        return hearing

    def leave(self, hearing: Hearing) -> None:
        """Nobody hears it any more."""
        subject = hearing.order.subject
        del self._by_requester[hearing.order.requester]
        self._by_subject[subject].remove(hearing)
        if not self._by_subject[subject]:
            del self._by_subject[subject]

    def on_record(self, record: Record) -> None:
        for hearing in self._by_subject.get(record.subject, ()):
            hearing.on_record(record)

    def on_head(self, head: Head) -> None:
        for hearing in self._by_subject.get(head.subject, ()):
            hearing.on_head(head)

    def on_direct_head(self, head: DirectHead) -> None:
        hearing = self._by_requester.get(head.requester)
        if hearing is not None:
            hearing.on_direct_head(head)

    def on_direct_record(self, record: DirectRecord) -> None:
        """What a store or a native producer answers; the rest is for the gateway's own requests."""
        hearing = self._by_requester.get(record.requester)
        if hearing is None:
            self._requests.on_record(record)
        else:
            hearing.on_direct_record(record)

    def on_end(self, end: End) -> None:
        """As `on_direct_record`."""
        hearing = self._by_requester.get(end.requester)
        if hearing is None:
            self._requests.on_answer(end)
        else:
            hearing.on_end(end)
