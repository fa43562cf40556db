"""Runs the command line by `python -m dqsql`."""

from dqsql.cli.main import main

if __name__ == "__main__":
    main()
