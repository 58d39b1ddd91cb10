"""The names of hidden states. It imports no model library, so that reading a datastore does not."""

from collections.abc import Sequence

from knnlm.errors import UsageError, unknown

KEYS = ("att", "ffn")


def checked_keys(names: Sequence[str]) -> tuple[str, ...]:
    """Bring the names of hidden states into their fixed order, each once.

    Args:
        names: Some of `KEYS`; a string is a list with commas.

    Raises:
        UsageError: A name is unknown, or there is none.

    Example:
        >>> checked_keys("ffn,att")
        ('att', 'ffn')
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    for name in names:
        if name not in KEYS:
            raise unknown("key", name, KEYS)
    if not names:
        raise UsageError(f"no key given: choose of {', '.join(KEYS)}")
    return tuple(key for key in KEYS if key in names)
