"""`python -m knnlm` is `knnlm`. Ctrl-C is handled before the command line is imported."""

import sys

from knnlm.cli.interruption import handle_interrupts, say_interrupted


def main() -> None:
    """Entry point of the console script."""
    try:
        handle_interrupts()
        from knnlm.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(say_interrupted(sys.argv[1:]))


if __name__ == "__main__":
    main()
