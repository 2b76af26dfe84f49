"""Transactions under faults: what clients did and saw, and whether every promise was kept."""
