"""The program `dafka`: what a person types, the processes it starts, and what operators ask of them."""
