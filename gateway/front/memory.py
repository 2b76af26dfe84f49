"""What one connection holds of the gateway's memory.

The budgets are shared by all clients (`ConnectionContext` says what each is for), and the share of a client
by its connections. A connection has an account with each, so that all that it holds is given back at its end,
whatever ended it.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.common.budget import Memory
from gateway.front.clients import Client
from wireproto.kafka.framing import BIG_FRAME_BYTES


class Account:
    """`held` bytes of a client's share of one budget."""

    __slots__ = ("_next_share", "_share", "held")

    def __init__(self, share: Memory) -> None:
        self._share = share
        self._next_share = share
        """Of which it takes when nothing is held any more."""
        self.held = 0

    def try_take(self, size: int) -> bool:
        """Takes `size` bytes if they are there for its client; False otherwise. Never blocks."""
        if not self._share.try_reserve(size):
            return False
        self.held += size
        return True

    async def take(self, size: int, before_waiting: Callable[[], object]) -> None:
        """Takes `size` bytes; if it has to wait for them, it calls `before_waiting` first."""
        if not self._share.try_reserve(size):
            before_waiting()
            await self._share.reserve(size)
        self.held += size

    def take_over(self, size: int) -> None:
        """Counts `size` bytes that were reserved by somebody else, and are given back here."""
        self.held += size

    def give_back(self, size: int) -> None:
        """Gives back `size` of the bytes."""
        self.held -= size
        self._share.release(size)
        if not self.held:
            self._share = self._next_share

    def move(self, share: Memory) -> None:
        """From now on it takes of another share; what is held stays where it was taken, and so does the
        account until that is given back.
        """
        self._next_share = share
        if not self.held:
            self._share = share

    def give_back_all(self) -> None:
        """Gives back whatever is held."""
        if self.held:
            self.give_back(self.held)


class ConnectionMemory:
    """The accounts of one connection, in bytes.

    * `requests` and `small_requests`: frames until they are answered (`of_request` says in which a frame is);
    * `decoded`: what the request in the reader became when it was decoded;
    * `produced`: what its Produce requests became;
    * `answers`: large answers until they are written.

    Two more counts are parts of these: `receiving` of `requests`, for a frame that has not arrived as a
    whole; and `in_flight`, for requests that began and are not answered.
    """

    __slots__ = ("answers", "decoded", "in_flight", "produced", "receiving", "requests", "small_requests")

    def __init__(self, client: Client) -> None:
        self.requests = Account(client.request_memory)
        self.small_requests = Account(client.small_request_memory)
        self.decoded = Account(client.decoded_memory)
        self.produced = Account(client.produced_memory)
        self.answers = Account(client.response_memory)
        self.receiving = 0
        self.in_flight = 0

    def move(self, client: Client) -> None:
        """From now on it takes of another client's shares. What is yet held is little: an answer to who has
        just said who he is.
        """
        self.requests.move(client.request_memory)
        self.small_requests.move(client.small_request_memory)
        self.decoded.move(client.decoded_memory)
        self.produced.move(client.produced_memory)
        self.answers.move(client.response_memory)

    def of_request(self, size: int) -> Account:
        """The account of a frame of `size` bytes."""
        return self.small_requests if size < BIG_FRAME_BYTES else self.requests

    def give_back_all(self) -> None:
        """At the end of the connection."""
        for account in (self.requests, self.small_requests, self.decoded, self.produced, self.answers):
            account.give_back_all()
