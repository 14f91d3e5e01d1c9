"""`python -m pacbayes`: the command line of the interpreter at hand."""

from pacbayes.cli import main

if __name__ == "__main__":
    main()
