"""The exception of this package."""

from wireproto.kafka.errors import ErrorCode


class InvalidBatch(Exception):
    """The bytes are not a record batch that may be stored or read.

    Whatever a client, a store or a network sends, functions of this package raise nothing else for it.

    ``code`` is what Kafka answers a producer for it, per partition; ``message`` says in English what was
    wrong, without any of the batch's bytes.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def corrupt(message: str) -> InvalidBatch:
    """The exception for bytes that are not what they claim to be: CORRUPT_MESSAGE."""
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, message)


def invalid(message: str) -> InvalidBatch:
    """The exception for a batch that is whole but breaks a rule: INVALID_RECORD."""
    return InvalidBatch(ErrorCode.INVALID_RECORD, message)
