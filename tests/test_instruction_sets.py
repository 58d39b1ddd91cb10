"""`make instruction-sets` restricts libraries to AVX2: they say that they follow."""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
ASK = """
import json, torch, faiss
from numpy._core._multiarray_umath import __cpu_features__
from threadpoolctl import threadpool_info
print(json.dumps({
    "torch": torch.backends.cpu.get_cpu_capability(),
    "faiss": faiss.SIMDConfig.get_level_name(),
    "numpy": [name for name, has in __cpu_features__.items() if has],
    "openblas": [lib["architecture"] for lib in threadpool_info()
                 if lib["internal_api"] == "openblas"],
}))
"""


def narrow() -> dict[str, str]:
    """The variables that the target sets."""
    (line,) = re.findall(r"^NARROW := (.*)$", MAKEFILE.read_text(), re.MULTILINE)
    return dict(word.split("=", 1) for word in shlex.split(line))


def levels(environment: dict[str, str]) -> dict[str, Any]:
    outer = {name: value for name, value in os.environ.items() if name not in narrow()}
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASK],
        env={**outer, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, Any] = json.loads(asked.stdout)
    return answers


@pytest.mark.pipeline
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX2 is of x86")
def test_libraries_follow_the_restriction() -> None:
    pytest.importorskip("threadpoolctl")
    own = levels({})
    if own["torch"] not in ("AVX2", "AVX512"):
        pytest.skip("this machine has no AVX2")
    restricted = levels(narrow())
    assert restricted["torch"] == restricted["faiss"] == "AVX2"
    assert set(restricted["openblas"]) == {"Haswell"}
    assert "X86_V3" in restricted["numpy"]
    assert not {"X86_V4", "AVX512_ICL", "AVX512_SPR"} & set(restricted["numpy"])
    if own["torch"] == "AVX512":  # so it is the restriction that shows
        assert own["faiss"].startswith("AVX512")
        assert "X86_V4" in own["numpy"]
