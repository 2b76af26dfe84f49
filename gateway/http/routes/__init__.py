"""The routes below /api/v1, a module for each kind of thing; `gateway.http.table` has all of them."""
