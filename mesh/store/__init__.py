"""The store: a shell that keeps records in RocksDB around the pure machines of `mesh.protocol`."""
