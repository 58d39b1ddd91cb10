"""knnlm-lm-eval: lm-evaluation-harness's own command line, with our model in it."""

import sys

from knnlm.errors import KnnlmError


def main() -> None:
    """Entry point of the console script."""
    try:
        from lm_eval.__main__ import cli_evaluate

        import knnlm.integrations.lm_eval as registers  # noqa: F401

        cli_evaluate()
    except KnnlmError as error:
        print(f"knnlm: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
