"""Who is dead, as most of the others say. Pure."""

from collections.abc import Iterator, Mapping

LEAST_OTHERS = 2
"""Gateways besides the one that may be dead: of two gateways neither can tell a death from a cut, and each
would take the other one for dead."""


def missed_by_most(
    living: Mapping[int, str], missed: Mapping[int, Mapping[int, str]]
) -> Iterator[tuple[int, int]]:
    """The gateways that are to lose their place, each with the one that takes it from them.

    `living` has each gateway's life, as the catalog does; `missed`, by gateway, who finds which life of it
    gone. More than half of all others have to find the life gone that lives; the first of them, by its id,
    acts, so that not all do.
    """
    for gateway, life in living.items():
        others = living.keys() - {gateway}
        voters = [
            other for other, gone in missed.get(gateway, {}).items() if other in others and gone == life
        ]
        if len(others) >= LEAST_OTHERS and 2 * len(voters) > len(others):
            yield gateway, min(voters)
