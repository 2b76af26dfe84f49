"""Who may say what on a mesh with keys."""

from tests.mutants.mutant import Mutant

KEYS = "tests/unit/mesh/keys/test_keys.py::"
PEERS = "tests/unit/mesh/protocol/test_peers.py::"
SENDERS = "tests/unit/mesh/store/test_senders.py::"
KEYED = "tests/mesh/test_keyed_mesh.py::"

MUTANTS = (
    Mutant(
        "stores-order-stores",
        "Whoever has a store's key deletes what the other stores have.",
        "mesh/keys/roles.py",
        "        return message.id in PASSED_ON\n",
        "        return True\n",
        (f"{KEYS}test_which_role_may_send_what",),
    ),
    Mutant(
        "stores-cut-stores",
        "A false end, from another store, cuts records that were acknowledged.",
        "mesh/store/senders.py",
        "max(state.head, state.accepted) <= entry.end",
        "True",
        (f"{SENDERS}test_a_store_passes_on_an_end_that_cuts_nothing",),
    ),
    Mutant(
        "a-store-counts-for-others",
        "One store acknowledges for all of them: w of one.",
        "mesh/keys/keys.py",
        "        return claimed == member.name\n",
        "        return True\n",
        (f"{KEYS}test_an_incarnation_is_of_the_name_that_said_it_first",),
    ),
    Mutant(
        "removed-keys-count",
        "What waits in a queue counts after its sender's key was removed.",
        "mesh/node.py",
        "        if keys is None or not keys.allows(key, message):\n",
        "        if keys is None or (keys.holder(key) is not None and not keys.allows(key, message)):\n",
        (f"{KEYED}test_a_message_that_came_before_its_senders_key_went_does_not_count",),
    ),
    Mutant(
        "natives-write-topics",
        "A native producer's records come between those of a gateway.",
        "mesh/store/senders.py",
        "        return state is None or state.announcement is None\n",
        "        return True\n",
        (f"{SENDERS}test_a_producer_writes_under_no_address_of_a_gateway",),
    ),
    Mutant(
        "links-of-removed-keys-stay",
        "Who was removed hears on.",
        "mesh/subscribers.py",
        "            if not all(map(may, users)):\n",
        "            if not users:\n",
        (f"{KEYED}test_a_gateway_whose_key_is_removed_orders_nothing_more",),
    ),
    Mutant(
        "beacons-of-other-keys-move-nodes",
        "An insider says that he is where a store is, and the link to that is given up.",
        "mesh/protocol/peers.py",
        "    return peer is not None and peer.connected and peer.key != key\n",
        "    return False\n",
        (f"{PEERS}test_another_key_takes_neither_the_name_nor_the_place_of_a_live_link",),
    ),
    Mutant(
        "nobody-asks-for-keys",
        "A socket that binds lets everybody in.",
        "mesh/zmq_trio.py",
        "        (zmq.CURVE_SERVER, 1),\n",
        "        (zmq.CURVE_SERVER, 0),\n",
        (f"{KEYED}test_a_stranger_hears_nothing_and_says_nothing",),
    ),
    Mutant(
        "every-key-is-let-in",
        "Who makes himself a key is on the mesh.",
        "mesh/keys/admission.py",
        'if admits(public) else (b"300", b"")',
        'if admits(public) or public else (b"300", b"")',
        (f"{KEYS}test_what_is_answered_to_zeromq", f"{KEYED}test_a_stranger_hears_nothing_and_says_nothing"),
    ),
    Mutant(
        "natives-hear-gateways",
        "A reader of one subject hears what stores give to gateways.",
        "mesh/keys/hearing.py",
        "        return name[:LIFE_BYTES] in self._keys\n",
        "        return False\n",
        ("tests/unit/mesh/keys/test_hearing.py::test_what_a_native_may_hear",),
    ),
    Mutant(
        "natives-wait-for-gateways",
        "A reader that has a gateway's next ids before the gateway is there hears what stores give to it.",
        "mesh/keys/keys.py",
        "                if member is not None and member.role in NATIVES:\n",
        "                if member is None:\n",
        (f"{KEYS}test_a_native_that_has_an_id_before_a_gateway_has_its_life_is_cut",),
    ),
    Mutant(
        "towers-name-users",
        "A tower says who it is: a producer that listens to what is not for it, which is shut out.",
        "mesh/zmq_trio.py",
        "        keys = self._keys\n        try:\n",
        "        keys = self._context.keys\n        try:\n",
        (f"{KEYED}test_a_tower_has_no_native_banished",),
    ),
)
