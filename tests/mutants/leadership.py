"""Which gateway leads what: slots, evenness, few moves, and what the catalog says of it."""

from tests.mutants.mutant import Mutant

SLOTS = "gateway/leadership/slots.py"
BALANCE = "gateway/leadership/balance.py"
NEXT_TABLE = "gateway/leadership/next_table.py"
EVENNESS = "gateway/leadership/evenness.py"
TABLE = "gateway/leadership/table.py"
RECORDS = "gateway/leadership/records.py"

ROOM = "tests/unit/gateway/leadership/"
OF_SLOTS = f"{ROOM}test_slots.py::"
OF_BALANCE = f"{ROOM}test_balance.py::"
OF_NEXT_TABLE = f"{ROOM}test_next_table.py::"
OF_EVENNESS = f"{ROOM}test_evenness.py::"
OF_TABLE = f"{ROOM}test_table.py::"
OF_RECORDS = f"{ROOM}test_records.py::"

MUTANTS = (
    Mutant(
        "partitions-in-other-slots",
        "Gateways of two releases both lead a partition, or neither does.",
        SLOTS,
        "(first_slot(topic_id) + index) % SLOTS",
        "(first_slot(topic_id) + 3 * index) % SLOTS",
        (f"{OF_SLOTS}test_a_partition_is_always_in_the_same_slot",),
    ),
    Mutant(
        "a-topic-in-half-the-slots",
        "Neighbours share slots, so that a topic is never even.",
        SLOTS,
        "(first_slot(topic_id) + index) % SLOTS",
        "(first_slot(topic_id) + index // 2) % SLOTS",
        (f"{OF_SLOTS}test_no_two_of_as_many_partitions_as_there_are_slots_share_one",),
    ),
    Mutant(
        "the-last-wish-of-a-slot-counts",
        "Gateways that heard of two wishes in another order give a slot to and fro without an end.",
        SLOTS,
        "min(wish, self.wishes.get(slot, wish))",
        "wish",
        (f"{OF_SLOTS}test_the_first_partition_of_a_slot_decides_where_several_are_wanted_elsewhere",),
    ),
    Mutant(
        "what-was-moved-by-hand-moves-on",
        "A slot goes where somebody wants it, and away from there because that is more even, and so on.",
        NEXT_TABLE,
        "            and balance.preferred(slot) is None\n",
        "",
        (f"{OF_NEXT_TABLE}test_a_slot_goes_where_somebody_wants_it_and_the_others_become_even_around_it",),
    ),
    Mutant(
        "each-looks-at-what-all-lead",
        "After a death with thousands of partitions the gateways count for a minute, and serve beside that.",
        NEXT_TABLE,
        "            and evened in {None, self._owners[slot]}\n",
        "",
        (f"{OF_NEXT_TABLE}test_one_gateway_makes_the_table_even_with_what_it_leads_itself",),
    ),
    Mutant(
        "even-in-all-only",
        "A topic has one gateway, and who produces to it the use of one core.",
        BALANCE,
        "return gain.by_topic > 0 or (gain.by_topic == 0 and gain.in_all > slack)",
        "return gain.by_topic >= 0 and gain.in_all > slack",
        (f"{OF_NEXT_TABLE}test_a_topic_is_spread_even_where_all_topics_together_are_even",),
    ),
    Mutant(
        "a-gain-of-nothing-is-one",
        "Slots move to and fro without an end, each time with a pause for producers.",
        BALANCE,
        "gain.by_topic > 0 or",
        "gain.by_topic >= 0 or",
        (f"{OF_BALANCE}test_a_gain_is_what_the_topic_has_more_there_and_what_all_topics_have",),
    ),
    Mutant(
        "no-slack",
        "With each topic that comes or goes some slot moves.",
        BALANCE,
        "gain.in_all > slack)",
        "gain.in_all > 0)",
        (f"{OF_NEXT_TABLE}test_a_small_difference_of_many_moves_nothing",),
    ),
    Mutant(
        "a-slot-counts-where-it-is",
        "A gateway with one partition more than another seems to have two more, and gives it away.",
        BALANCE,
        "        self.take_out(slot, place)\n        costs",
        "        costs",
        (f"{OF_BALANCE}test_to_ask_changes_nothing",),
    ),
    Mutant(
        "one-topic-of-a-slot-counts",
        "Slots that several topics share are uneven for all but the first of them.",
        BALANCE,
        "        if len(contents) == 1:",
        "        if contents:",
        (f"{OF_BALANCE}test_all_topics_in_a_slot_count",),
    ),
    Mutant(
        "racks-are-no-tie-break",
        "A rack that goes takes all leaders of a topic with it though another rack was as good.",
        BALANCE,
        "(in_rack[self._racks[place]], (place - turn) % count)",
        "(0, (place - turn) % count)",
        (f"{OF_NEXT_TABLE}test_slots_of_a_gateway_that_is_gone_go_to_another_rack_than_the_topic_has",),
    ),
    Mutant(
        "neighbours-in-one-rack",
        "New topics lie in one rack.",
        BALANCE,
        "((2 * number + 1) / (2 * len(inside)), gateway.rack, gateway)",
        "(0, gateway.rack, gateway)",
        (f"{OF_BALANCE}test_racks_of_one_size_take_turns",),
    ),
    Mutant(
        "what-is-draining-gets-slots",
        "A gateway that an operator waits for is never empty.",
        NEXT_TABLE,
        "[gateway for gateway in alive if not gateway.draining] or alive",
        "alive",
        (
            f"{OF_NEXT_TABLE}test_one_that_is_draining_leads_nothing_in_the_end_and_gives_before_anything_else_moves",
        ),
    ),
    Mutant(
        "draining-gateways-leave-slots-to-nobody",
        "A cluster of which all gateways are draining serves nothing, though all of them are there.",
        NEXT_TABLE,
        "if not gateway.draining] or alive",
        "if not gateway.draining]",
        (f"{OF_NEXT_TABLE}test_where_all_are_draining_they_go_on_leading",),
    ),
    Mutant(
        "who-is-back-loses-its-slots",
        "A gateway that was restarted finds its partitions moved, and each of them pauses twice.",
        NEXT_TABLE,
        "back = [slot for slot in sorted(self._orphans) if self._owners[slot] in places]",
        "back = [slot for slot in sorted(self._orphans) if slot < 0]",
        (
            f"{OF_NEXT_TABLE}test_one_that_is_alive_again_keeps_its_slots",
            f"{OF_NEXT_TABLE}test_one_that_is_alive_again_keeps_what_nobody_has_taken_meanwhile",
        ),
    ),
    Mutant(
        "gone-gateways-count-as-there",
        "Slots of a gateway that is gone stay without a leader.",
        NEXT_TABLE,
        "if owners[slot] not in living}",
        "if owners[slot] == NOBODY}",
        (f"{OF_NEXT_TABLE}test_what_a_gateway_led_that_is_gone_is_all_that_moves_at_first",),
    ),
    Mutant(
        "the-lightest-first",
        "What a gone gateway led is spread less evenly than it could be, and moves once more.",
        NEXT_TABLE,
        "(-self._weights[slot], slot)",
        "(self._weights[slot], slot)",
        (f"{OF_NEXT_TABLE}test_the_heaviest_of_a_gone_gateways_slots_find_their_place_first",),
    ),
    Mutant(
        "any-gain-first",
        "Moves that gain little come before those that gain much.",
        NEXT_TABLE,
        "better[0] > most[0]",
        "better[0] < most[0]",
        (f"{OF_NEXT_TABLE}test_what_moves_first_gains_most",),
    ),
    Mutant(
        "free-slots-stay",
        "A gateway that is new gets no part of topics that are created later until they have moved.",
        NEXT_TABLE,
        "        yield from self._free()\n",
        "",
        (f"{OF_NEXT_TABLE}test_free_slots_go_round_the_ring_again_when_a_gateway_comes",),
    ),
    Mutant(
        "a-look-without-a-breath",
        "Clients wait for milliseconds while thousands of partitions are looked at.",
        NEXT_TABLE,
        "                    yield None\n",
        "                    pass\n",
        (f"{OF_NEXT_TABLE}test_others_have_their_turn_while_it_looks",),
    ),
    Mutant(
        "a-look-that-is-due-is-waited-for",
        "A gateway whose look has to wait spins meanwhile.",
        EVENNESS,
        "        if now >= self.next_look:\n            self.next_look = math.inf\n",
        "",
        (f"{OF_EVENNESS}test_it_looks_every_period_and_waits_for_nothing_while_a_look_is_due",),
    ),
    Mutant(
        "an-empty-slot-is-a-reason",
        "Slots go round the ring again when a topic is deleted, and then partitions of other topics move.",
        EVENNESS,
        "before != now and had and has",
        "before != now",
        (f"{OF_EVENNESS}test_a_slot_that_moves_with_nothing_in_it_is_no_reason",),
    ),
    Mutant(
        "an-older-life-leads-on",
        "A gateway that was restarted serves what it led before, without asking the stores where that ends.",
        TABLE,
        "alive.get(leader.gateway) != leader.life",
        "leader.gateway not in alive",
        (f"{OF_TABLE}test_a_slot_is_an_orphan_unless_its_leader_is_alive_in_the_same_life",),
    ),
    Mutant(
        "a-later-version-is-believed",
        "An older release leads by values whose meaning has changed.",
        RECORDS,
        "    if version != VERSION:\n",
        "    if version < VERSION:\n",
        (f"{OF_RECORDS}test_a_later_version_is_refused_by_name",),
    ),
    Mutant(
        "true-is-one",
        "A value that nobody can have written is believed.",
        RECORDS,
        "if type(value) is not kind:",
        "if not isinstance(value, kind):",
        (f"{OF_RECORDS}test_what_cannot_be_true_of_a_slot_is_refused[change2]",),
    ),
    Mutant(
        "values-of-any-size",
        "A value of megabytes is parsed on the loop.",
        RECORDS,
        "    if len(value) > limit:\n",
        "    if len(value) < 0:\n",
        (
            f"{OF_RECORDS}test_what_cannot_be_true_of_a_slot_is_refused[change14]",
            f"{OF_RECORDS}test_what_cannot_be_true_of_a_gateway_is_refused[change21]",
        ),
    ),
    Mutant(
        "deep-values-end-the-gateway",
        "A value of nothing but brackets ends the process.",
        RECORDS,
        "except (ValueError, RecursionError) as error:",
        "except ValueError as error:",
        (f"{OF_RECORDS}test_what_is_no_value_is_refused",),
    ),
    Mutant(
        "lives-of-any-text",
        "A life that is none passes for one.",
        RECORDS,
        "_LIFE.fullmatch(life)",
        "_LIFE.match(life)",
        (f"{OF_RECORDS}test_what_cannot_be_true_of_a_slot_is_refused[change10]",),
    ),
)
