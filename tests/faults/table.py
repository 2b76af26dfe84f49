"""The table of faults in docs/reliability.md, from the report of a real run:

FAULTS_REPORT=report.jsonl make faults
python -m tests.faults.table report.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One line of the list of faults that is to be withstood; the numbers are the list's."""

    number: str
    fault: str
    expected: str
    tests: tuple[str, ...]


ROWS = (
    Row(
        "1",
        "SIGKILL of the gateway, three times, twenty times, and while a store is away",
        "its next life recovers the log; idempotent producers go on",
        (
            "test_a_killed_gateway_recovers_its_log",
            "test_a_gateway_killed_twenty_times",
            "test_a_gateway_recovers_while_one_store_is_away",
        ),
    ),
    Row(
        "2",
        "SIGKILL of a store; of two",
        "one is not missed; with two gone error 19 or 20 within each request's timeout",
        ("test_a_killed_store_is_not_missed_and_comes_back", "test_two_killed_stores_are_told_of_in_time"),
    ),
    Row(
        "3",
        "power loss: all stores and the gateway killed, each write-ahead log cut to its last fsync",
        "every acknowledged record is there",
        ("test_a_power_loss_of_everything",),
    ),
    Row(
        "4",
        "SIGKILL of the tower, for a minute; no packets to or from it",
        "records go on; a new store waits and is found once the tower is back",
        (
            "test_without_its_tower_a_mesh_goes_on",
            "test_a_minute_without_the_tower",
            "test_everyone_parted_from_the_tower",
        ),
    ),
    Row(
        "6",
        "SIGSTOP of a store, for 15 s",
        "not missed; it catches up",
        (
            "test_a_stopped_store_is_not_missed_and_goes_on",
            "test_a_store_stopped_for_longer_than_its_links_live",
        ),
    ),
    Row(
        "7",
        "a store killed for 200,000 records, stopped for 60,000; a disk lost and replaced by an empty one",
        "no memory grows for it; the same bytes in the end",
        ("test_a_store_far_behind", "test_a_lost_disk_is_replaced_under_load"),
    ),
    Row(
        "8",
        "the gateway killed while two stores' ACKs are held back, three times",
        "the tail is there once or not at all",
        ("test_a_gateway_killed_with_a_tail_that_nobody_acknowledged",),
    ),
    Row(
        "9",
        "SIGTERM under load, and a second signal while it stops",
        "what is in flight is answered, exit code 0, nothing acknowledged later; the second ends it at once",
        (
            "test_sigterm_under_load_and_a_second_one",
            "test_a_second_signal_ends_a_store_or_a_tower_at_once",
        ),
    ),
    Row(
        "10",
        "200 SIGKILLs of stores, half of them 0 to 0.5 s after a start",
        "each opens; no start gets slower",
        ("test_a_hundred_restarts",),
    ),
    Row(
        "11",
        "SIGTERM and start of every process in turn",
        "each ends with 0; nothing lost",
        ("test_everything_is_restarted_one_by_one",),
    ),
    Row(
        "12",
        "no packets between gateway and one store, two stores, between the stores",
        "one is not missed; with two error 19 or 20 in time; heals by itself",
        (
            "test_a_gateway_parted_from_one_store_goes_on",
            "test_a_gateway_parted_from_two_stores_says_so_in_time",
            "test_stores_parted_from_each_other",
        ),
    ),
    Row(
        "13",
        "packets of two stores lost one way, either way; what one and two stores say thrown away",
        "7, 19 or 20 in time; nothing twice",
        ("test_packets_lost_one_way", "test_acknowledgements_that_are_lost"),
    ),
    Row(
        "14",
        "the client's connection reset within requests and before answers; links reset ten times a second",
        "tried again, there once, at the offset of the first try",
        ("test_connections_reset_in_the_middle", "test_links_that_are_reset_all_the_time"),
    ),
    Row(
        "16",
        "300 ms and 200 kB/s on every link; 300 ms and 64 KiB/s to the client",
        "slower only",
        ("test_slow_links", "test_a_slow_client"),
    ),
    Row(
        "17",
        "native readers stopped while three times the high-water mark is published",
        "the gap is fetched, nobody's memory grows",
        ("test_readers_that_stop_reading",),
    ),
    Row(
        "18",
        "links down every other half second for a minute",
        "no loss, no file descriptors left behind",
        ("test_links_that_flap",),
    ),
    Row(
        "19",
        "a store's disk is full",
        "that store ends with exit code 4 and refuses to start, the others serve; with room it catches up",
        ("test_a_full_disk",),
    ),
    Row(
        "20",
        "a store's fsync fails, or the catalog's (EIO)",
        "exit code 4, no second fsync of that file, the other stores serve; the catalog is written anew",
        ("test_an_fsync_that_fails", "test_a_catalogs_fsync_that_fails"),
    ),
    Row("21", "a store's fsync takes 0.5 s longer", "two are enough", ("test_a_slow_fsync",)),
    Row("22", "a torn write at the end of a store's log", "cut off, it opens", ("test_a_torn_write",)),
    Row(
        "23",
        "a flipped bit in the middle of a store's log",
        "refused with file and remedy; by `--accept-loss` another store",
        ("test_a_flipped_bit_in_the_log",),
    ),
    Row(
        "24, 26",
        "bits flipped in the files of two stores; records altered so that only their own checksum tells",
        "readers get the third's copy, bad ones are reported; without it error 56, never less than there is",
        ("test_wrong_bytes_on_two_stores",),
    ),
    Row(
        "25",
        "a directory that another process uses, of another mesh, on a read-only file system",
        "refused with the process's id, not admitted, exit code 2 with the reason",
        ("test_a_directory_in_use_or_of_another_mesh", "test_a_directory_that_cannot_be_written"),
    ),
    Row(
        "28",
        "RLIMIT_AS on all; fifty large writes and fifty large reads at once",
        "they wait for each other; nobody is refused, no MemoryError",
        ("test_little_memory_and_many_large_requests",),
    ),
    Row(
        "-",
        "a byte flipped in a table file of one store, or in every tenth of its records",
        "its scrub finds it and mends it from the others; nobody else notices",
        ("test_a_flipped_byte_is_found_and_mended",),
    ),
    Row(
        "-",
        "two of three stores lost for good; a byte flipped in the middle of a store's write-ahead log",
        "the partition waits, the store does not start; accept-loss names what goes, and exactly that goes",
        ("test_stores_that_are_lost_for_good", "test_a_log_that_is_damaged_in_the_middle"),
    ),
    Row(
        "-",
        "a member of etcd killed, one stopped; all of it killed; put back to an older copy; unreachable",
        "not missed; records go on, changes are refused with the reason; the stores refuse it; exit code 2",
        (
            "test_a_member_of_etcd_is_killed_and_one_is_stopped",
            "test_all_of_etcd_is_away",
            "test_a_gateway_ends_though_etcd_is_away",
            "test_an_etcd_that_was_put_back_to_an_older_copy_is_refused",
            "test_an_etcd_that_nobody_reaches_is_named",
            "test_a_catalog_moves_into_etcd_and_back",
        ),
    ),
    Row(
        "-",
        "catalog in etcd: the gateway's machine lost; one killed, ended, or stopped beside a standby",
        "another one takes its place; the one that was stopped ends; clients find the other one",
        (
            "test_the_gateways_machine_is_lost",
            "test_a_standby_takes_the_place_of_a_gateway",
            "test_a_gateway_that_was_stopped_for_so_long_that_another_one_serves_ends",
            "test_clients_find_the_standby",
        ),
    ),
    Row(
        "-",
        "three gateways: all of etcd away for longer than a lease",
        "none of them answers, and none ends: when it is back all go on as before",
        ("test_etcd_is_away_for_longer_than_a_lease_and_all_go_on_when_it_is_back",),
    ),
    Row(
        "-",
        "gateways, stores and a tower kept running by one process: each killed, one stopped; that one itself",
        "each is started again, and the others go on; none is left without it",
        (
            "test_each_process_is_killed_under_load_and_started_again",
            "test_all_end_in_order_and_go_on_with_the_same_data",
            "test_an_operator_drains_one_under_load_and_not_for_good",
            "test_partitions_are_moved_by_hand_under_load_and_back_after_a_kill",
            "test_none_is_left_when_the_one_that_has_started_them_is_killed",
            "test_one_that_cannot_start_ends_all_with_its_reason",
            "test_data_of_the_other_kind_is_refused",
        ),
    ),
    Row(
        "-",
        "three gateways: each killed in turn, each started anew, a group's coordinator killed, "
        "one stopped or ended, one more",
        "the others lead what it led, and it has its share again; one that was stopped ends",
        (
            "test_each_gateway_is_started_anew_and_others_lead_before_it_is_gone",
            "test_each_gateway_is_killed_in_turn_and_nothing_is_lost",
            "test_a_group_goes_on_where_its_coordinator_is_killed",
            "test_a_gateway_that_is_stopped_for_long_or_ended_is_followed",
            "test_a_gateway_that_comes_later_takes_its_share_under_load",
            "test_each_gateway_changes_the_cluster_and_all_of_them_see_it",
            "test_all_tell_the_same_of_the_cluster",
            "test_one_that_finds_no_store_is_given_nothing",
            "test_one_that_finds_too_few_stores_answers_when_they_are_back",
            "test_one_with_a_catalog_of_its_own_is_refused",
        ),
    ),
    Row(
        "-",
        "three gateways, one of them killed: the lag of a group in what others lead",
        "its coordinator shows what Kafka's own protocol tells",
        ("test_a_coordinator_shows_the_lag_of_what_others_lead_also_after_one_of_them_was_killed",),
    ),
    Row(
        "-",
        "three gateways and three stores upgraded one after the other under load; one is away meanwhile",
        "clients notice nothing; what is new is switched on when all have it; an old one does not start then",
        (
            "test_one_process_after_the_other_is_upgraded_and_then_a_feature_is_switched_on",
            "test_a_gateway_that_is_away_holds_a_level_up_until_it_is_removed",
        ),
    ),
)

COUNTS = ("begun", "ok", "failed", "unknown")


def table(lines: Iterable[str]) -> str:
    """In Markdown; a row none of whose tests ran has no numbers."""
    reported: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        entry = json.loads(line)
        reported[entry.pop("test").rpartition("::")[2].partition("[")[0]].append(entry)
    made = [
        "| | fault | expected | begun | ok | refused | unknown | also seen |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        entries = [entry for test in row.tests for entry in reported[test]]
        faults = [entry for entry in entries if entry.get("healed") is False]
        numbers = [f"{sum(e[name] for e in faults):,}" if faults else "" for name in COUNTS]
        seen = "; ".join(_fact(e) for e in entries if "healed" not in e and not e["what"].startswith("read "))
        made.append(f"| {' | '.join([row.number, row.fault, row.expected, *numbers, seen])} |")
    return "\n".join(made)


def _fact(entry: dict[str, Any]) -> str:
    values = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in entry.items() if key != "what")
    return f"{entry['what']}: {values}"


def main() -> None:
    print(table(Path(sys.argv[1]).read_text().splitlines()))


if __name__ == "__main__":
    main()
