"""Transactions: the pure state machine of one transactional id, and the coordinator around it (KIP-98,
KIP-890).
"""
