"""A partition's log: segments, leader epochs, recovery, idempotence, index and tail cache."""
