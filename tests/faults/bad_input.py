"""Which bad input is tried on which API, and where: `python -m tests.faults.bad_input` prints it as a table.

What holds for all APIs is in `GENERAL`: those tests go through the registry, or through every schema.
`SPECIAL` has what an API needs besides, because of what its fields mean. Files are below tests/.
"""

from __future__ import annotations

from typing import Final

_BAD = "faults/test_bad_requests.py::"
_FRAMES = "faults/test_bad_frames.py::"
_GROUPS = "faults/test_bad_groups.py::"
_OFFSETS = "faults/test_bad_offsets.py::"
_SASL = "unit/gateway/front/test_authentication.py::"
_TOKENS = "unit/gateway/api/test_delegation_tokens.py::"
_TRANSACTIONS = "faults/test_bad_transactions.py::"
_VALUES = "faults/test_bad_values.py::"
_WIRE = "unit/wireproto/kafka/"
_CASES = "differential/cases/"

GENERAL: Final = {
    "frames of any length, cut short, byte by byte, of noise": _FRAMES + "test_noise",
    "array counts, lengths, varints and tags that are not so": _WIRE + "test_malformed.py::test_refused",
    "a right request, a few bytes of it changed": _FRAMES + "test_changed_requests",
    "a body cut short or too long": _WIRE
    + "test_requests.py::test_a_request_cut_short_or_too_long_is_refused",
    "a key or a version that is not served": _FRAMES + "test_unknown_apis_and_versions",
    "the largest and the smallest numbers": _VALUES + "test_the_largest_and_the_smallest_numbers",
    "the longest texts": _VALUES + "test_the_longest_texts",
    "very many elements": _VALUES + "test_very_many_elements",
}

SPECIAL: Final[dict[str, tuple[str, ...]]] = {
    "Produce": (
        _BAD + "test_broken_batches",
        _BAD + "test_bombs",
        _BAD + "test_bombs_that_the_server_opens",
        _BAD + "test_a_produce_of_very_many_partitions",
        _CASES + "produce.py::unusual_batches",
    ),
    "Fetch": (
        _BAD + "test_offsets_out_of_range",
        _BAD + "test_fetches_that_wait_for_ever",
        _BAD + "test_many_fetch_sessions",
        _BAD + "test_fetch_sessions_of_very_many_partitions",
        _BAD + "test_fetch_sessions_that_are_not_there",
        _CASES + "fetch_sessions.py::wrong",
    ),
    "ListOffsets": (_BAD + "test_bombs", _CASES + "list_offsets.py::special"),
    "Metadata": (_BAD + "test_topic_names", _BAD + "test_metadata_of_ten_thousand_names"),
    "OffsetCommit": (
        _OFFSETS + "test_commits_that_are_too_large",
        _OFFSETS + "test_commits_for_topics_that_were_deleted",
        _GROUPS + "test_who_is_stale_or_unknown_changes_nothing",
        _CASES + "offsets.py::metadata_sizes",
        _CASES + "offsets.py::by_members",
    ),
    "OffsetFetch": (_OFFSETS + "test_one_offset_named_thousands_of_times",),
    "FindCoordinator": (_CASES + "find_coordinator.py::unknown_type",),
    "JoinGroup": (
        _GROUPS + "test_more_metadata_than_a_request_may_have_is_hung_up_on",
        _GROUPS + "test_a_group_takes_so_much_metadata_and_no_more",
        _GROUPS + "test_ten_thousand_members_that_never_come",
        _GROUPS + "test_odd_numbers_and_names",
        _GROUPS + "test_who_is_stale_or_unknown_changes_nothing",
    ),
    "Heartbeat": (_GROUPS + "test_who_is_stale_or_unknown_changes_nothing",),
    "LeaveGroup": (
        _GROUPS + "test_who_is_stale_or_unknown_changes_nothing",
        _GROUPS + "test_ten_thousand_members_that_never_come",
    ),
    "SyncGroup": (
        _GROUPS + "test_a_generation_that_is_too_large_to_be_written_is_not_handed_out",
        _GROUPS + "test_assignments_for_members_that_are_not_there",
        _GROUPS + "test_who_is_stale_or_unknown_changes_nothing",
    ),
    "DescribeGroups": (_GROUPS + "test_one_large_group_asked_for_very_often",),
    "ListGroups": (_CASES + "groups.py::listed",),
    "SaslHandshake": (
        _SASL + "test_a_mechanism_that_there_is_not",
        _CASES + "users.py::a_handshake_where_nobody_is_asked",
    ),
    "ApiVersions": ("faults/test_bad_frames.py::test_unknown_versions_of_api_versions_are_answered",),
    "CreateTopics": (
        _BAD + "test_topic_names",
        _BAD + "test_too_many_partitions",
        _CASES + "create_topics.py::bad_configs",
    ),
    "DeleteTopics": (_CASES + "delete_topics.py::twice_in_one_request",),
    "DeleteRecords": (
        _BAD + "test_records_that_are_not_there_cannot_be_deleted",
        _CASES + "delete_records.py::refused",
    ),
    "InitProducerId": (
        _TRANSACTIONS + "test_very_many_transactional_ids",
        _CASES + "init_producer_id.py::odd_timeouts",
    ),
    "AddPartitionsToTxn": (
        _TRANSACTIONS + "test_a_transaction_of_very_many_partitions",
        _TRANSACTIONS + "test_who_has_no_transaction_changes_nothing",
        _CASES + "transactional_ids.py::partitions_of_nobody",
    ),
    "AddOffsetsToTxn": (
        _TRANSACTIONS + "test_who_has_no_transaction_changes_nothing",
        _CASES + "transactional_ids.py::offsets_of_nobody",
    ),
    "EndTxn": (
        _TRANSACTIONS + "test_who_has_no_transaction_changes_nothing",
        _CASES + "transactional_ids.py::ends_of_nobody",
    ),
    "WriteTxnMarkers": (
        _BAD + "test_too_many_small_questions_are_refused",
        _CASES + "transactions_markers.py::nonsense",
    ),
    "TxnOffsetCommit": (
        _BAD + "test_too_many_small_questions_are_refused",
        _CASES + "transactions_offsets.py::odd_values",
    ),
    "OffsetForLeaderEpoch": (_CASES + "offset_for_leader_epoch.py::epochs",),
    "DescribeAcls": (_CASES + "nothing_there.py::acls",),
    "CreateAcls": (_CASES + "nothing_there.py::new_acls",),
    "DeleteAcls": (_CASES + "nothing_there.py::acls_deleted",),
    "DescribeConfigs": (_CASES + "describe_configs.py::unknown",),
    "AlterConfigs": (_CASES + "alter_configs.py::legacy_faults",),
    "AlterReplicaLogDirs": (
        _BAD + "test_too_many_small_questions_are_refused",
        _CASES + "alter_replica_log_dirs.py::unknown",
    ),
    "DescribeLogDirs": (_BAD + "test_partitions_that_are_described_over_and_over",),
    "SaslAuthenticate": (
        "unit/gateway/security/test_scram.py::test_whatever_comes_is_answered_or_refused",
        _SASL + "test_nobody_is_served_before_it_is_known_who_it_is",
        _SASL + "test_who_is_not_known_sends_no_large_frames",
        _CASES + "users.py::a_token_where_nobody_is_asked",
    ),
    "CreatePartitions": (
        _BAD + "test_too_many_partitions_for_a_topic_that_is_there",
        _CASES + "create_partitions.py::bad_counts",
    ),
    "DeleteGroups": (_GROUPS + "test_who_is_stale_or_unknown_changes_nothing", _CASES + "groups.py::deleted"),
    "ElectLeaders": (_BAD + "test_too_many_small_questions_are_refused", _CASES + "leaders.py::elections"),
    "IncrementalAlterConfigs": (
        _BAD + "test_configs_that_are_too_many_or_too_large",
        _BAD + "test_too_many_small_questions_are_refused",
        _CASES + "alter_configs.py::incremental_faults",
    ),
    "AlterPartitionReassignments": (_CASES + "leaders.py::reassignments",),
    "ListPartitionReassignments": (_CASES + "leaders.py::ongoing",),
    "OffsetDelete": (_OFFSETS + "test_the_internal_topic_cannot_be_named", _CASES + "offsets.py::deletes"),
    **dict.fromkeys(
        (
            "CreateDelegationToken",
            "RenewDelegationToken",
            "ExpireDelegationToken",
            "DescribeDelegationToken",
        ),
        (_TOKENS + "test_what_is_against_it_comes_in_kafkas_order", _TOKENS + "test_renewers_are_bounded"),
    ),
    "DescribeClientQuotas": (_CASES + "nothing_there.py::quotas", _CASES + "client_quotas.py::what_is_there"),
    "AlterClientQuotas": (_CASES + "client_quotas.py::faults",),
    "DescribeUserScramCredentials": (_BAD + "test_too_many_small_questions_are_refused",),
    "AlterUserScramCredentials": (
        _BAD + "test_too_many_small_questions_are_refused",
        _CASES + "users.py::what_is_wrong_with_users",
    ),
    "DescribeQuorum": (_CASES + "nothing_there.py::quorum",),
    "UpdateFeatures": (
        _BAD + "test_too_many_small_questions_are_refused",
        _CASES + "update_features.py::levels_that_are_not_there",
    ),
    "DescribeCluster": (_CASES + "describe_cluster.py::endpoint_types",),
    "DescribeProducers": (
        _BAD + "test_too_many_small_questions_are_refused",
        _BAD + "test_partitions_that_are_described_over_and_over",
    ),
    "UnregisterBroker": (_CASES + "unregister_broker.py::unknown",),
    "DescribeTransactions": (
        _BAD + "test_too_many_small_questions_are_refused",
        _TRANSACTIONS + "test_a_transaction_of_very_many_partitions",
    ),
    "ListTransactions": (
        _TRANSACTIONS + "test_patterns_that_take_for_ever",
        _CASES + "nothing_there.py::transactions",
    ),
    "ListConfigResources": (_CASES + "nothing_there.py::unknown_config_resources",),
    "DescribeTopicPartitions": (
        _BAD + "test_partitions_that_are_described_over_and_over",
        _BAD + "test_cursors_that_lead_nowhere",
        _CASES + "describe_topic_partitions.py::cursors",
    ),
}


def page_section() -> str:
    """The tables, in Markdown."""
    lines = ["| bad input, on every API | test |", "|---|---|"]
    lines += [f"| {what} | `{test}` |" for what, test in GENERAL.items()]
    lines += ["", "| API | what it needs besides |", "|---|---|"]
    lines += [f"| {name} | {', '.join(f'`{_short(t)}`' for t in tests)} |" for name, tests in SPECIAL.items()]
    return "\n".join(lines)


def _short(test: str) -> str:
    """Without folders: what one looks for."""
    return test.rpartition("/")[2].replace(".py::", ".")


if __name__ == "__main__":
    print(page_section())
