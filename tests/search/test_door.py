"""The door of the room: every name is there, and the defaults cost nothing."""

import subprocess
import sys

import pytest

import knnlm.search


@pytest.mark.parametrize("name", knnlm.search.__all__)
def test_what_is_offered_is_there(name: str) -> None:
    assert getattr(knnlm.search, name) is not None
    assert name in dir(knnlm.search)


def test_an_unknown_name_is_an_attribute_error() -> None:
    unknown = "nearest"
    with pytest.raises(AttributeError, match="'knnlm.search' has no attribute 'nearest'"):
        getattr(knnlm.search, unknown)


def test_defaults_are_light_to_import() -> None:
    code = (
        "import sys; from knnlm.search import defaults; "
        "print(defaults.K, [m for m in ('faiss', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["1024", "[]\n"]
