"""Who asks the servers that have ACLs, and how he says who he is.

`allowed` may do everything, and is no super user; `denied` may nothing; `partly` may do with a resource what
its name says (`tests.differential.rights`). Each of `WITH_CLUSTER_RIGHTS` has one operation on the cluster.
"""

from __future__ import annotations

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from gateway.security.acls import SUPPORTED, Operation, ResourceType
from tests.differential.wire import Connection

NOBODY = ""
ADMIN, ALLOWED, DENIED, PARTLY = "admin", "allowed", "denied", "partly"
WITH_RIGHTS = (ALLOWED, DENIED, PARTLY)
CLUSTER_RIGHTS = {
    f"cluster-{operation.name.lower().replace('_', '-')}": operation
    for operation in sorted({*SUPPORTED[ResourceType.CLUSTER], Operation.DELETE, Operation.ALL})
}
WITH_CLUSTER_RIGHTS = tuple(CLUSTER_RIGHTS)
SEE_THE_CLUSTER = (ADMIN, ALLOWED, *(f"cluster-{right}" for right in ("all", "describe", "alter", "delete")))
EVERYBODY = (ADMIN, *WITH_RIGHTS, *WITH_CLUSTER_RIGHTS)

PASSWORDS = {user: f"{user}-secret" for user in EVERYBODY}
SUPER_USERS = (f"User:{ADMIN}", "User:ANONYMOUS")
PLAIN = "PLAIN"


def plain_token(user: str, password: str, authorization_id: str = "") -> bytes:
    """What a client says by PLAIN (RFC 4616)."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def log_in(connection: Connection, user: str) -> None:
    """By PLAIN. Raises ConnectionError: he is refused."""
    shaken = connection.ask(SaslHandshakeRequest(version=1, mechanism=PLAIN))
    if not shaken.error_code:
        token = plain_token(user, PASSWORDS[user])
        shaken = connection.ask(SaslAuthenticateRequest(version=2, auth_bytes=token))
    if shaken.error_code:
        raise ConnectionError(f"{user} cannot log in: {shaken}")
