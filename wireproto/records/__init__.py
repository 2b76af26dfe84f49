"""Kafka's record batches, format v2: checked, given offsets in place, indexed, and read where that is needed.

::

    errors       InvalidBatch: the one exception for bytes that others sent
    header       the 61 bytes before the records
    batch        a producer's batch checked and completed in place; a stored batch checked
    crc          CRC32C over views
    compression  the four codecs, with bounded output        snappy   its two wire forms
    output       memory for what is inflated                 produced what a producer sent, checked
    varint       the integers inside a record                iteration  the records of one batch
    row          what a store keeps beside a batch
    outline      where the parts of each record lie, without copies
    builder      batches made from records: for tests, tools and internal topics
    control      the batch that ends a transaction

Work on the way of Produce and Fetch is per batch: ``batch``, ``crc``, ``header`` and ``row`` alone. Whatever
touches single records or inflates (``iteration``, ``compression``) belongs in a worker thread.
"""
