"""The store's write-ahead log: files of our own beside RocksDB, which writes none.

Why not RocksDB's: it computes a checksum in software for every byte, and grows a file with every write, so
that each fsync notes a new size as well. These files are written over again and again, and checked by the
processor's own instruction (docs/decisions/write-ahead-log.md has the figures).

Rule: under `--fsync always` an acknowledged commit is in the tables of RocksDB, fsynced, or whole in a file
here, fsynced. A file is written anew only when all its commits are in tables.

Theory of operation: commits have consecutive numbers, and each writes its own number into the database, so
the tables themselves say which commit they have come to. An entry (`entries`) is one commit. `log` appends
entries and fsyncs them; `keeper`, a thread, has RocksDB move memtables into tables when a file is full, and
gives the file back. At an open `reading` reads what the files have, `judging` says from where on it is
replayed and whether anything is missing that was fsynced, and the replay ends in tables: so an open store
begins with an empty log. Whoever opens only to read lays the entries over the tables (`overlay`).

How far the log must go is known from three places: the tables; a number in every later entry, of the last
commit that was fsynced; and the file `come-to` (`mark`), which is written after each fsync, and after a write
where that is enough to acknowledge. A commit that one of them names and that cannot be read is a loss, and
the store is not opened; what none of them names goes, as nothing says that it was ever fsynced.
"""
