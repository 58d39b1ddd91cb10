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
        print(f"knnlm: {_with_model_args(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)


def _with_model_args(message: str) -> str:
    """A message of the library, which speaks of `parameters`, with the names of --model_args."""
    for parameter, name in (("lam", "lambda"), ("tau", "tau")):
        message = message.replace(f"`{parameter}`", name)
    return message.replace("`", "")


if __name__ == "__main__":
    main()
