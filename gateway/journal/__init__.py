"""State that lives in compacted topics of the gateway: written by a leader, and loaded by the next one."""
