"""What everybody may do to topics and the cluster: all of it, as in a Kafka without an authorizer.

As `AclOperation` codes, for answers that tell a client what it is allowed to do.
"""

from typing import Final

TOPIC_OPERATIONS: Final = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""
