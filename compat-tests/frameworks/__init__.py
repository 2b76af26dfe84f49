"""What the programs of frameworks share: Java processes that are killed, a look at the server from beside."""
