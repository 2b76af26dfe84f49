"""Several gateways on one catalog: slots that are taken and given, notes and groups that go with them."""

from tests.mutants.mutant import Mutant

SLOT_LEADERSHIP = "gateway/cluster/slot_leadership.py"

OF_SLOTS = "tests/unit/gateway/cluster/test_slot_leadership.py::"
OF_LEADING = "tests/unit/gateway/cluster/test_leading.py::"
OF_HANDING_OVER = "tests/unit/gateway/cluster/test_handing_over.py::"
OF_REFUSED = "tests/unit/gateway/log/idempotence/test_refused.py::"
OF_REMEMBERING = "tests/unit/gateway/cluster/test_remembering.py::"
OF_GROUPS = "tests/unit/gateway/groups/test_coordinator.py::"

OF_OPENING = "tests/unit/gateway/log/test_opener.py::"
OF_STORES = "tests/unit/gateway/cluster/test_stores.py::"
OF_LIVES = "tests/unit/gateway/cluster/test_store_lives.py::"
OF_ELSEWHERE = "tests/unit/gateway/log/test_led_elsewhere.py::"

MUTANTS = (
    Mutant(
        "a-segment-on-a-store-that-is-removed",
        "A segment counts on a store that another gateway removes in the same moment: one copy less than "
        "acknowledged.",
        "gateway/log/opener.py",
        "            changes.compares += members\n",
        "",
        (f"{OF_OPENING}test_a_segment_is_not_opened_on_a_store_that_another_gateway_takes_out_of_service",),
    ),
    Mutant(
        "a-store-is-removed-by-an-old-view",
        "A store is removed on which another gateway has just opened a segment.",
        "gateway/cluster/stores.py",
        "        await self._catalog.fresh()\n",
        "",
        (f"{OF_STORES}test_a_store_stays_on_which_another_gateway_has_opened_a_segment_in_this_moment",),
    ),
    Mutant(
        "a-slot-of-the-living-is-taken",
        "Two gateways take partitions from each other.",
        SLOT_LEADERSHIP,
        "unpack_alive(there.value).life == leader.life:\n            return []",
        "unpack_alive(there.value).life == leader.life:\n            pass",
        (f"{OF_SLOTS}test_what_a_life_leads_that_goes_on_is_not_taken",),
    ),
    Mutant(
        "that-a-life-is-over-is-not-compared",
        "A gateway that was away for a moment loses what it leads while it leads it.",
        SLOT_LEADERSHIP,
        "        if leader.gateway != self.gateway:",
        "        if leader.gateway < 0:",
        (f"{OF_SLOTS}test_what_a_life_leads_that_goes_on_is_not_taken",),
    ),
    Mutant(
        "a-slot-under-a-number-that-was-drawn-before",
        "The next leader's epoch may be lower than the last one's: its stores refuse it.",
        SLOT_LEADERSHIP,
        "        epoch = counter.next\n",
        "        epoch = counter.leadership\n",
        (f"{OF_SLOTS}test_each_take_has_a_number_of_its_own",),
    ),
    Mutant(
        "a-slot-is-given-to-whoever-was-alive",
        "It goes to a gateway that is gone, and waits for nobody to take it.",
        SLOT_LEADERSHIP,
        "there.mod_revision if there is not None and is_alive else NEVER",
        "0 if there is None else there.mod_revision",
        (f"{OF_SLOTS}test_what_cannot_be_given_is_led_anew",),
    ),
    Mutant(
        "what-was-not-given-is-forgotten",
        "Nobody serves the slot: its leader has stopped, and is its leader.",
        SLOT_LEADERSHIP,
        "            for slot in targets:\n                self._led.pop(slot, None)\n",
        "",
        (f"{OF_SLOTS}test_what_cannot_be_given_is_led_anew",),
    ),
    Mutant(
        "the-epoch-that-others-tell-is-fenced",
        "A client goes to and fro between a gateway that tells it an epoch and one that refuses that.",
        "gateway/log/partition.py",
        "        if self.led_since <= current_leader_epoch:",
        "        if self.led_since < 0:",
        (f"{OF_LEADING}test_a_partition_that_is_led_elsewhere_keeps_nothing_but_what_was_shown",),
    ),
    Mutant(
        "a-topic-as-its-slots-were-before",
        "Clients are told an epoch that the partition's leader does not know: they ask again for ever.",
        "gateway/cluster/leading.py",
        "            elif partition.led_since != epoch:",
        "            elif partition.led_since < epoch < 0:",
        (
            f"{OF_LEADING}test_a_partition_that_is_made_while_its_slot_changes_goes_by_the_table_of_afterwards",
        ),
    ),
    Mutant(
        "a-start-that-another-gateway-has-kept",
        "A store counts at one gateway only: the others wait for it for ever.",
        "gateway/cluster/store_lives.py",
        "            self._vouching.remember(store, life)\n            # If",
        "            return\n            # If",
        (f"{OF_LIVES}test_what_another_one_has_put_since_is_known_before_it_is_changed",),
    ),
    Mutant(
        "all-gateways-tell-the-stores",
        "Each finds the other's sequence there, and sends whole copies for ever.",
        "gateway/cluster/remembering.py",
        "(self._tell if self._is_keeper() else self._hear)",
        "self._tell",
        (f"{OF_REMEMBERING}test_of_several_gateways_the_keeper_alone_tells_the_stores",),
    ),
    Mutant(
        "a-start-ends-the-lives-of-all",
        "A gateway that starts deposes those that serve.",
        "gateway/cluster/lineage.py",
        "if life.last is None and name not in alive",
        "if life.last is None",
        (f"{OF_REMEMBERING}test_the_lives_of_gateways_that_are_alive_are_not_ended",),
    ),
    Mutant(
        "groups-stay-where-they-were",
        "Two gateways coordinate a group.",
        "gateway/journal/coordinator.py",
        "self._loading.went(partition.index)\n                self._forget(partition.index)\n",
        "self._loading.went(partition.index)\n",
        (f"{OF_GROUPS}test_groups_of_a_partition_that_goes_are_another_gateways",),
    ),
    Mutant(
        "an-old-load-counts",
        "Groups as they were before another gateway had them.",
        "gateway/journal/partition_loads.py",
        "return self._closed or self._begun[partition] != begun",
        "return self._closed",
        (f"{OF_GROUPS}test_what_a_load_finds_that_began_before_the_partition_went_is_old",),
    ),
    Mutant(
        "who-reaches-no-store-is-given-a-share",
        "A gateway that was started with the wrong tower leads a third of all partitions, and serves none.",
        "gateway/cluster/gateways.py",
        "return self.has_begun and not self.leaving and not self.draining",
        "return not self.leaving and not self.draining",
        (f"{OF_LEADING}test_one_that_has_not_heard_from_the_stores_is_given_nothing_and_takes_nothing",),
    ),
    Mutant(
        "what-was-refused-ends-with-the-first",
        "A later batch overtakes the second one that was refused, and librdkafka begins a new epoch.",
        "gateway/log/idempotence/refused_batches.py",
        "if is_after(last, self._highest):",
        "if True:",
        (f"{OF_REFUSED}test_the_first_that_comes_again_does_not_let_others_overtake_each_other",),
    ),
    Mutant(
        "what-is-recovered-is-given-away",
        "A gateway gives away what it is recovering, and the next one begins with that anew.",
        "gateway/cluster/leading.py",
        "is_behind = self._recovery.is_behind and not self._is_leaving",
        "is_behind = False",
        (f"{OF_LEADING}test_shares_become_even_once_nothing_waits_to_be_recovered",),
    ),
    Mutant(
        "topics-move-partitions",
        "A new topic's first clients meet errors, since some partition moves as soon as it is created.",
        "gateway/cluster/leading.py",
        "self._evenness.is_due(owners, gateways, occupancy) and not is_behind",
        "not is_behind",
        (f"{OF_LEADING}test_topics_that_come_and_go_move_nothing_until_it_is_time_to_look",),
    ),
    Mutant(
        "what-leaves-takes-batches",
        "A batch is appended when its segment has its end already.",
        "gateway/log/partition.py",
        "        if self.is_leaving:\n            return self._hold(header, acks, client)\n",
        "",
        (f"{OF_HANDING_OVER}test_what_is_under_way_becomes_durable_and_what_comes_is_sent_on",),
    ),
    Mutant(
        "who-comes-meanwhile-is-never-answered",
        "Producers wait for their whole timeout when a partition moves.",
        "gateway/log/partition.py",
        "        self.is_leaving = False\n        self._refuse_held(reason)\n",
        "        self.is_leaving = False\n",
        (f"{OF_HANDING_OVER}test_what_is_under_way_becomes_durable_and_what_comes_is_sent_on",),
    ),
    Mutant(
        "what-is-given-is-served",
        "Two gateways serve a partition for a moment.",
        "gateway/cluster/leading.py",
        "                partition.given()\n",
        "                pass\n",
        (f"{OF_HANDING_OVER}test_while_it_is_given_nothing_of_it_is_served_and_who_waits_is_not_told_yet",),
    ),
    Mutant(
        "what-is-slow-is-given-all-the-same",
        "A gateway that comes has producers send again what a slow store has.",
        "gateway/cluster/leading.py",
        "if slow and not self._is_leaving:",
        "if False:",
        (f"{OF_HANDING_OVER}test_one_whose_stores_are_slow_stays_and_is_tried_again",),
    ),
    Mutant(
        "a-late-refusal-loses-what-came-back",
        "A slot is its leader's by the table, and its leader does not believe it: nobody serves it.",
        SLOT_LEADERSHIP,
        "== compared:\n            self._refused.add(compared)",
        ":\n            self._refused.update(self._led.values())",
        (f"{OF_SLOTS}test_an_old_compare_says_nothing_of_a_slot_that_has_come_back",),
    ),
    Mutant(
        "a-life-that-goes-on-is-forgotten",
        "A gateway that runs for long is deposed by the starts of others, and no gateway starts any more.",
        "gateway/cluster/lineage.py",
        "if one[1].last is not None]",
        "]",
        ("tests/unit/gateway/cluster/test_lineage.py::test_a_life_that_goes_on_is_never_forgotten",),
    ),
    Mutant(
        "an-empty-chain-is-out-of-range",
        "A consumer whose partition moves while it is read begins anew, or passes records over.",
        "gateway/log/cold.py",
        "        if partition.withheld:\n",
        "        if partition.deleted:\n",
        (f"{OF_ELSEWHERE}test_a_read_that_waited_while_the_slot_went_is_told_to_ask_the_leader",),
    ),
)
