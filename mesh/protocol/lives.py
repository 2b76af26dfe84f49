"""Which addresses are gateways', so that nobody takes them for native ones.

A store keeps what native producers publish without being asked. A gateway's segment it keeps only after OPEN
or COPY has announced it here: with n stores and r members each most segments are other stores'. Both start
with RECORDs under an address; only a gateway sends requests, under requester ids that begin as its addresses
do.
"""

from mesh.protocol.address_state import life_of

MAX_LIVES = 1024
"""Lives remembered, the latest that were heard of: each gateway asks every second who is there."""

MAX_ELSEWHERE = 65_536
"""Addresses remembered that belong to such a life and were never announced here; for others the disk is asked
again at their next RECORD."""


class Lives:
    """The lives of gateways that were heard of, and their addresses that are kept elsewhere."""

    def __init__(self) -> None:
        self.changes = 0
        """How often one was new."""
        self._lives: dict[str, None] = {}
        self._elsewhere: dict[str, None] = {}

    def heard(self, requester: str) -> bool:
        """A request came from `requester`. True if its life is a new one."""
        life = life_of(requester)
        known = life in self._lives
        if known:
            del self._lives[life]
        else:
            self.changes += 1
        self._lives[life] = None
        if len(self._lives) > MAX_LIVES:
            del self._lives[next(iter(self._lives))]
        return not known

    def has(self, address: str) -> bool:
        """Whether a gateway that was heard of made this address."""
        return life_of(address) in self._lives

    def is_elsewhere(self, address: str) -> bool:
        return address in self._elsewhere

    def put_elsewhere(self, address: str) -> None:
        """Nothing is known of this address here."""
        self._elsewhere[address] = None
        if len(self._elsewhere) > MAX_ELSEWHERE:
            del self._elsewhere[next(iter(self._elsewhere))]

    def take_back(self, address: str) -> None:
        """Something is asked of it: look again."""
        self._elsewhere.pop(address, None)
