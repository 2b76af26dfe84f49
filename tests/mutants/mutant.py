"""One change of the source that must not go unnoticed."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """`old`, which is once in `file`, becomes `new`; then each of the `checks` must fail.

    A check is what pytest takes: a test, with its parameters where it has some.
    """

    name: str
    lost: str
    """What somebody would lose, in a sentence."""
    file: str
    old: str
    new: str
    checks: tuple[str, ...]

    def apply(self, source: str) -> str:
        """The source with the change. Raises ValueError: it is not there, or not once."""
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {count} times in {self.file}: {self.old!r}")
        return source.replace(self.old, self.new)
