"""Every mutation, on the way of a batch from its producer to w fsynced stores and back."""

from tests.mutants import catalogs, fences, groups, logs, stores

MUTANTS = (*stores.MUTANTS, *logs.MUTANTS, *groups.MUTANTS, *catalogs.MUTANTS, *fences.MUTANTS)
