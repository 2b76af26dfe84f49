"""What one connection holds of the gateway's memory.

The budgets are shared by all connections (`ConnectionContext` says what each is for). A connection has an
account with each of them, so that all that it holds is given back at its end, whatever ended it.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.common.budget import Budget
from gateway.front.context import ConnectionContext
from wireproto.kafka.framing import BIG_FRAME_BYTES


class Account:
    """`held` bytes of one budget."""

    __slots__ = ("_budget", "held")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held = 0

    def try_take(self, size: int) -> bool:
        """Takes `size` bytes if they are free and nobody waits for some; False otherwise. Never blocks."""
        if not self._budget.try_reserve(size):
            return False
        self.held += size
        return True

    async def take(self, size: int, before_waiting: Callable[[], object]) -> None:
        """Takes `size` bytes; if it has to wait for them, it calls `before_waiting` first."""
        if not self._budget.try_reserve(size):
            before_waiting()
            await self._budget.reserve(size)
        self.held += size

    def take_over(self, size: int) -> None:
        """Counts `size` bytes that were reserved by somebody else, and are given back here."""
        self.held += size

    def give_back(self, size: int) -> None:
        """Gives back `size` of the bytes."""
        self.held -= size
        self._budget.release(size)

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

    def __init__(self, context: ConnectionContext) -> None:
        self.requests = Account(context.request_memory)
        self.small_requests = Account(context.small_request_memory)
        self.decoded = Account(context.decoded_memory)
        self.produced = Account(context.produced_memory)
        self.answers = Account(context.response_memory)
        self.receiving = 0
        self.in_flight = 0

    def of_request(self, size: int) -> Account:
        """The account of a frame of `size` bytes."""
        return self.small_requests if size < BIG_FRAME_BYTES else self.requests

    def give_back_all(self) -> None:
        """At the end of the connection."""
        for account in (self.requests, self.small_requests, self.decoded, self.produced, self.answers):
            account.give_back_all()
