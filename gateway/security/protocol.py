"""How what is said over a connection is protected (`security.protocol`)."""

from __future__ import annotations

from enum import Enum


class SecurityProtocol(Enum):
    """How clients of a listener speak."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_sasl(self) -> bool:
        """Whether they say who they are by SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}

    @property
    def has_tls(self) -> bool:
        """Whether what they say is encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}
