"""What decoding mesh messages may raise."""


class MalformedMessage(Exception):
    """A mesh message that breaks the wire format: the caller drops it, counts it, and lives."""
