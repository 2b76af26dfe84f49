"""To whom a producer id was given, and who may do anything with it."""

from tests.mutants.mutant import Mutant

COMMITS = "tests/unit/gateway/api/test_txn_offset_commit.py::"
IDS = "tests/unit/gateway/security/test_producer_ids.py::"
OVER_TCP = "tests/in_process/test_producer_id_owners.py::"
OWNERS = "tests/unit/gateway/cluster/test_producer_id_owners.py::"
PRODUCE = "tests/unit/gateway/produce/test_producer_id_owners.py::"

MUTANTS = (
    Mutant(
        "anybodys-producer-id",
        "Who knows a producer's id has its next record taken for a duplicate, which is lost.",
        "gateway/produce/appending.py",
        "            if header.producer_id >= BOUND:\n",
        "            if header.producer_id < 0:\n",
        (
            f"{PRODUCE}test_another_principal_neither_uses_up_a_sequence_nor_fences",
            f"{OVER_TCP}test_a_forged_sequence_or_epoch_is_refused_and_the_next_record_is_kept[acls]",
        ),
    ),
    Mutant(
        "a-proof-for-anybody",
        "As anybodys-producer-id.",
        "gateway/security/producer_ids.py",
        "        keyed.update(_INPUT.pack(count, kind) + str(whom).encode(",
        "        keyed.update(_INPUT.pack(count, 0) + str(type(whom)).encode(",
        (
            f"{IDS}test_an_id_fits_whom_it_was_given_to_and_nobody_else",
            f"{OWNERS}test_ids_are_whose_they_were_on_every_gateway_and_after_a_restart",
        ),
    ),
    Mutant(
        "outside-by-a-name-that-nobody-asks-for",
        "Who may not use a transactional id fences its producer by naming it.",
        "gateway/produce/appending.py",
        "        if header.is_transactional:\n            if name is None:\n",
        "        if header.is_transactional or name:\n            if name is None:\n",
        (f"{PRODUCE}test_a_transactional_producers_id_is_of_no_use_outside_its_transactions[tx]",),
    ),
    Mutant(
        "offsets-in-somebody-elses-transaction",
        "Offsets of a group are committed with a transaction of somebody else, and its producer is fenced.",
        "gateway/api/txn_offset_commit.py",
        "        self._check_owner()\n",
        "",
        (
            f"{COMMITS}test_another_ones_producer_is_refused_where_its_transaction_is_open",
            f"{OVER_TCP}test_an_open_transaction_takes_nothing_of_somebody_elses",
        ),
    ),
    Mutant(
        "ids-of-a-lost-secret-refused",
        "Once a catalog is lost for good, every producer ends.",
        "gateway/security/producer_ids.py",
        "BOUND >> (COUNT_BITS + PROOF_BITS) | self._mark",
        "producer_id >> (COUNT_BITS + PROOF_BITS) & 255 | BOUND >> (COUNT_BITS + PROOF_BITS)",
        (
            f"{IDS}test_ids_of_another_secret_are_told_apart",
            f"{OWNERS}test_an_id_of_another_secret_or_none_is_anybodys",
        ),
    ),
    Mutant(
        "given-before-the-secret-is-remembered",
        "In a catalog that was rebuilt, ids that were given are anybody's.",
        "gateway/cluster/cluster.py",
        "        await self.producer_id_owners.prepare()\n"
        "        return self.producer_id_owners.bind(await self.context.producer_ids.allocate(), whom)\n",
        "        count = await self.context.producer_ids.allocate()\n"
        "        await self.producer_id_owners.prepare()\n"
        "        return self.producer_id_owners.bind(count, whom)\n",
        (f"{OVER_TCP}test_the_stores_remember_the_secret_with_the_first_id",),
    ),
    Mutant(
        "as-many-remembered-as-there-are",
        "A gateway grows with every id that it was ever shown.",
        "gateway/cluster/producer_id_owners.py",
        "            self._right.clear()\n",
        "            pass\n",
        (f"{OWNERS}test_what_is_remembered_is_bounded",),
    ),
)
