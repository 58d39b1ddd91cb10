"""lm-evaluation-harness: `--model knnlm --model_args store=STORE`.

lm-eval 0.4.13 finds models in its own source only, so `knnlm-lm-eval` (cli/lm_eval.py) imports this
module, which registers ours, and hands over to lm-eval's command line; in Python, importing it is
enough.
"""

from typing import Any

import torch

from knnlm.components import KNN_NAME
from knnlm.errors import KnnlmError, UsageError
from knnlm.text import with_bos

try:
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM
except ImportError as error:
    raise KnnlmError("lm-evaluation-harness is not installed: run pip install lm-eval") from error


@register_model("knnlm")
class KNNLMHarness(HFLM):  # type: ignore[misc]  # lm_eval is not typed
    """A datastore's kNN-LM; what lm-eval does with a Hugging Face model it does with this one."""

    def __init__(
        self,
        store: str | None = None,
        model: str | None = None,
        component: str = KNN_NAME,
        key: str | None = None,
        metric: str | None = None,
        index: str | None = None,
        exact: bool | str = False,
        k: int | None = None,
        tau: float | None = None,
        device: str | None = None,
        batch_size: int | str = 1,
        **options: Any,
    ) -> None:
        """Take the options of `knnlm eval`, `lambda` too; others are those of lm-eval's `hf`."""
        from knnlm.api import KNNLM

        if store is None:
            raise UsageError("no datastore given: add --model_args store=STORE")
        if str(device).startswith("cuda") and not torch.cuda.is_available():
            device = None  # lm-eval asks for CUDA unless told otherwise, and falls back itself
        lam = options.pop("lambda", None)
        knnlm = KNNLM(
            store,
            component=component,
            key=key,
            metric=metric,
            index=index,
            exact=bool(exact),
            k=k,
            lam=None if lam is None else float(lam),
            tau=tau,
            model=model,
            device=device,
        )
        super().__init__(
            pretrained=knnlm.to_transformers(),
            # lm-eval gives rendered chat templates as text: special tokens must be special
            tokenizer=with_bos(knnlm.store.model.tokenizer),
            batch_size=batch_size,
            **options,
        )
