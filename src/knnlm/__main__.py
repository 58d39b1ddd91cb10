"""`python -m knnlm` is `knnlm`."""

from knnlm.cli.main import main

if __name__ == "__main__":
    main()
