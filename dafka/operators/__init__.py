"""What operators ask: through the socket of a gateway that runs, or of the files of a store that does not.

`socket` has both ends of the gateway's socket. Commands (`lost_stores`, `damaged_log`) are at one of them;
what the gateway does with a request is in `stores`, `accept_loss`, `native`, a class of handlers in each.

Three ways to give up what cannot be had any more are easily mixed up:

- `dafka store accept-loss --gone STORE`: stores that are lost for good. `lost_stores` is the command,
  `accept_loss` answers it in the gateway, `gateway.cluster.giving_up` does it.
- `dafka store accept-loss DIR`: a stopped store whose write-ahead log is damaged. `damaged_log`
  is the command, `mesh.store.log_cut` finds out what a cut takes; the gateway is asked what it knows of that.
- `--accept-loss` of a process that starts: both without a question, as far as it concerns that process.
"""
