"""Faults on order, for tests of applications: `dafka standalone --chaos SOCKET`.

`faults` says which requests meet which fault, and knows nothing of sockets; `answers` has the answers of
requests that are to fail; `apis` puts both before the handlers. Without the flag the handlers are what they
were: nothing on a request's way looks for faults.
"""
