"""Run the command line with `python -m pacbayes`."""

from pacbayes.cli import main

if __name__ == "__main__":
    main()
