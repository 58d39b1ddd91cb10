"""Keeps transformers' own progress bars off our screen while it loads and saves; puts its setting
back."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def no_transformers_bars() -> Iterator[None]:
    """No bars from transformers inside."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
