"""From the catalog and the stores to a partition that serves."""
