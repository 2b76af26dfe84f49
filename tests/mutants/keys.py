"""Who may say what on a mesh with keys."""

from tests.mutants.mutant import Mutant

KEYS = "tests/unit/mesh/keys/test_keys.py::"
PEERS = "tests/unit/mesh/protocol/test_peers.py::"
PASSED_ON = "tests/unit/mesh/protocol/test_passed_on.py::"
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
        "mesh/protocol/segments.py",
        "        return STATUS_DONE if end >= state.accepted else STATUS_OTHER_END\n",
        "        return STATUS_DONE\n",
        (f"{PASSED_ON}test_nothing_is_cut",),
    ),
    Mutant(
        "stores-close-what-is-written",
        "A false end, from another store: what is written after it is refused, and one disk less has it.",
        "mesh/protocol/segments.py",
        "        if state.phase is Phase.OPEN:\n            return STATUS_OPEN\n        if state.ann",
        "        if state.ann",
        (f"{PASSED_ON}test_a_segment_that_is_open_stays_open",),
    ),
    Mutant(
        "ends-of-stores-stay",
        "A gateway's end comes too late where another store has told one.",
        "mesh/protocol/segments.py",
        "        return passed_on or not state.is_passed_on\n",
        "        return True\n",
        (f"{PASSED_ON}test_a_gateways_end_takes_the_place_of_one_that_was_passed_on",),
    ),
    Mutant(
        "who-told-the-end-is-forgotten",
        "After a start the end that another store told is as good as a gateway's.",
        "mesh/protocol/address_state.py",
        "        phase = Phase.SEALED if self.is_passed_on else self.phase\n",
        "        phase = self.phase\n",
        (f"{PASSED_ON}test_a_gateways_end_takes_the_place_of_one_that_was_passed_on",),
    ),
    Mutant(
        "stores-count-as-gateways",
        "Any store's key closes what gateways write.",
        "mesh/store/store.py",
        "sender is not None and sender.role is Role.STORE)",
        "False)",
        (f"{KEYED}test_a_store_orders_no_other_store",),
    ),
    Mutant(
        "stores-name-their-sources",
        "Any store's key has another one copy from it what it likes.",
        "mesh/store/senders.py",
        "return not any(Copy.unpack(entry).sources",
        "return not any(Copy.unpack(entry) is None",
        (f"{SENDERS}test_a_store_does_not_say_from_whom_to_copy",),
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
        "        return not any(map(name.startswith, self._beginnings))\n",
        "        return True\n",
        ("tests/unit/mesh/keys/test_hearing.py::test_what_a_native_may_hear",),
    ),
)
