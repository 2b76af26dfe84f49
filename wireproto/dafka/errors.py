"""What decoding mesh messages may raise."""


class MalformedMessage(ValueError):
    """A mesh message that breaks the wire format: the caller drops it, counts it, and lives."""
