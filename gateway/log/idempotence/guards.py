"""That nothing has happened to a producer in a partition while its coordinator was asked (KIP-890; Kafka's
`VerificationGuard`).

Who asks takes a guard before. It is void as soon as a batch of the producer's transaction, or a marker, is
appended: what the coordinator said may be of a transaction that has ended since. Pure.
"""


class Guard:
    """Of one producer; shared by all that ask for it at the same time."""

    __slots__ = ("users",)

    def __init__(self) -> None:
        self.users = 0


class Guards:
    """Those of one partition; there are as many as producers are being asked for."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def take(self, producer_id: int) -> Guard:
        """Somebody is about to ask; to be given back."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = Guard()
        guard.users += 1
        return guard

    def give_back(self, producer_id: int, guard: Guard) -> None:
        """It is not needed any more."""
        guard.users -= 1
        if not guard.users and self._guards.get(producer_id) is guard:
            del self._guards[producer_id]

    def holds(self, producer_id: int, guard: Guard) -> bool:
        """Whether nothing has happened since it was taken."""
        return self._guards.get(producer_id) is guard

    def void(self, producer_id: int) -> None:
        """Something has happened to the producer."""
        if self._guards:
            self._guards.pop(producer_id, None)

    def void_all(self) -> None:
        """The partition was recovered."""
        self._guards.clear()
