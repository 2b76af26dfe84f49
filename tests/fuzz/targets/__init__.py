"""Everything that is given malformed input, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from gateway.security.scram import Hash
from tests.fuzz.target import Target
from tests.fuzz.targets.apis import AclApis, TokenApis
from tests.fuzz.targets.connections import Connections
from tests.fuzz.targets.names import Names
from tests.fuzz.targets.sasl import oauthbearer, plain, scram
from tests.fuzz.targets.tls import Tls
from tests.fuzz.targets.web_tokens import KeySets, WebTokens

TARGETS: Final[Mapping[str, Callable[[], Target]]] = {
    "tls": Tls,
    "plain": plain,
    "scram-sha-256": partial(scram, Hash.SHA_256),
    "scram-sha-512": partial(scram, Hash.SHA_512),
    "oauthbearer": oauthbearer,
    "jwt": WebTokens,
    "jwks": KeySets,
    "sasl-frames": Connections,
    "acl-filters": AclApis,
    "delegation-tokens": TokenApis,
    "principal-rules": Names,
}
