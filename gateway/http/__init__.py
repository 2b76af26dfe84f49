"""The status page and its JSON over HTTP (docs/http-api.md): what a gateway knows, for people and programs.
Nothing is changed by it, but with `--http-data`, where programs append records, too.

::

    server      accepts, and bounds how many          connection  HTTP/1.1 on one socket (h11)
    guard       who may ask                           router      paths to routes; all are in `table`
    target      a request's target, and parameters    failures    answers where something is wrong
    turns       little of the loop at a time          sums        sums and rates, while somebody looks
    view        what routes see of the gateway        paging      lists in pages
    static      the page's files                      texts       values as JSON has them
    lines       records as lines of JSON              batches     a body to one batch
    appended    a batch to the log, as a Produce      record_stream   records from an offset on

The loop serves Kafka first. Whatever is done for a page is done a turn of two milliseconds at a time, one
page after the other, and rests as long as it worked.
"""
