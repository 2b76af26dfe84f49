"""`python -m dafka`, the same as `dafka`."""

from dafka.cli import main

if __name__ == "__main__":
    main()
