"""Every mutation, on the way of a batch from its producer to w fsynced stores and back."""

from tests.mutants import (
    catalogs,
    cleaning,
    features,
    fences,
    groups,
    leadership,
    logs,
    opened,
    protocol,
    several_gateways,
    shared_catalog,
    stores,
    transaction_coordinator,
    transactional_offsets,
    transactions,
    work,
)

MUTANTS = (
    *protocol.MUTANTS,
    *stores.MUTANTS,
    *logs.MUTANTS,
    *cleaning.MUTANTS,
    *groups.MUTANTS,
    *catalogs.MUTANTS,
    *features.MUTANTS,
    *fences.MUTANTS,
    *leadership.MUTANTS,
    *opened.MUTANTS,
    *several_gateways.MUTANTS,
    *shared_catalog.MUTANTS,
    *transaction_coordinator.MUTANTS,
    *transactional_offsets.MUTANTS,
    *transactions.MUTANTS,
    *work.MUTANTS,
)
