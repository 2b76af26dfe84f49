"""Every mutation, on the way of a batch from its producer to w fsynced stores and back."""

from tests.mutants import (
    catalogs,
    cleaning,
    fences,
    groups,
    leadership,
    logs,
    opened,
    protocol,
    stores,
    work,
)

MUTANTS = (
    *protocol.MUTANTS,
    *stores.MUTANTS,
    *logs.MUTANTS,
    *cleaning.MUTANTS,
    *groups.MUTANTS,
    *catalogs.MUTANTS,
    *fences.MUTANTS,
    *leadership.MUTANTS,
    *opened.MUTANTS,
    *work.MUTANTS,
)
