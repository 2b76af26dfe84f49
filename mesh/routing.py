"""Which message goes to which handler of which object, at stores, gateways and whoever else asks stores.

A node has one such table, and each type of message one handler in it. Where messages of one type are for
several objects, the handler looks whose this one is: a function here, or a method of the object that gets it
first (`Store.on_direct_record`). Native programs (`mesh.native`) are one object each, with tables of their
own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mesh.native.subjects import NativeSubjects
from mesh.node import Routes
from mesh.producer import Producer
from mesh.requests import Requests
from wireproto.dafka.additions import (
    Answer,
    Digest,
    Digested,
    DirectRecords,
    End,
    Found,
    GetRows,
    Keep,
    Kept,
    Listed,
    ListSegments,
    Lookup,
    Ping,
    Pong,
    Recall,
    Recalled,
    Request,
    Rows,
    TakenUp,
    Verify,
)
from wireproto.dafka.messages import (
    Ack,
    ConsumerHello,
    DirectHead,
    DirectRecord,
    Fetch,
    GetHeads,
    Head,
    Record,
)

if TYPE_CHECKING:
    from mesh.store.native import NativeStore
    from mesh.store.server import Server
    from mesh.store.store import Store


def requests_routes(requests: Requests) -> Routes:
    """A node that only asks stores."""
    return {
        **_answers(requests),
        End: requests.on_answer,
        DirectRecord: requests.on_record,
    }


def gateway_routes(
    requests: Requests,
    producer: Producer,
    subjects: NativeSubjects,
    on_ping: Callable[[Ping], None] | None = None,
) -> Routes:
    """A gateway's node; `on_ping` answers other gateways, where there may be some."""
    pings: Routes = {} if on_ping is None else {Ping: on_ping}
    return {
        **_answers(requests),
        Ack: producer.on_ack,
        Fetch: producer.on_fetch,
        # About what native producers have published.
        DirectHead: subjects.on_direct_head,
        DirectRecords: subjects.on_direct_records,
        # To what the gateway itself has asked, too.
        DirectRecord: subjects.on_direct_record,
        End: subjects.on_end,
        **pings,
    }


def store_routes(store: "Store", server: "Server", native: "NativeStore", requests: Requests) -> Routes:
    """A store's node."""

    def on_fetch(fetch: Fetch) -> None:
        if fetch.store:
            server.on_fetch(fetch)
        else:
            native.readers.on_fetch(fetch)

    return {
        # From producers: native ones and gateways.
        Record: store.on_record,
        Head: store.on_head,
        # From who has what this store lacks: a producer, another store.
        DirectRecord: store.on_direct_record,
        End: store.on_end,
        # From gateways, about segments.
        Ping: store.on_ping,
        Request: store.on_request,
        # From gateways, about their catalog.
        Keep: store.on_keep,
        Recall: server.on_recall,
        # From readers: gateways and other stores.
        Lookup: server.on_lookup,
        GetRows: server.on_get_rows,
        Digest: server.on_digest,
        Verify: server.on_verify,
        ListSegments: server.on_list,
        # From these, if it is directed, and from native readers.
        Fetch: on_fetch,
        # From native readers and other stores, about native addresses.
        GetHeads: native.on_get_heads,
        DirectHead: native.on_direct_head,
        # From gateways, about what of these is in topics.
        TakenUp: native.on_taken_up,
        ConsumerHello: native.on_hello,
        # From other stores, to what the scrub asked.
        **_answers(requests),
    }


def _answers(requests: Requests) -> dict[type[Any], Callable[[Any], None]]:
    """The answers of one message; END and DIRECT-RECORD are a store's own, too."""
    return dict.fromkeys((Answer, Found, Rows, Listed, Digested, Kept, Recalled, Pong), requests.on_answer)
