"""knnlm can be imported where the POSIX-only modules of Python do not exist, as on Windows."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.pipeline

PROGRAM = """
import importlib, pkgutil, sys
import filelock
from transformers import GenerationMixin, PreTrainedModel

# Other packages choose their imports by the system they run on, so they come first.
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
import knnlm

for module in pkgutil.walk_packages(knnlm.__path__, "knnlm."):
    if module.name != "knnlm.__main__":
        importlib.import_module(module.name)
        print(module.name)
"""


def test_every_module_is_importable_without_posix_modules() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert {"knnlm.files", "knnlm.cli.main"} <= set(ended.stdout.split())
