"""A store as a Hugging Face model. Knows nothing of texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knnlm.datastore.entries import Entries
from knnlm.models.load import LanguageModel
from knnlm.resolve import refuse_retrieval, the_model, the_settings, the_store
from knnlm.search.retrieval import Score
from knnlm.text.tokenizer import with_bos
from knnlm.training.distillation import load_distilled

if TYPE_CHECKING:
    from knnlm.integrations.transformers.model import KNNLMForCausalLM


class Loaded(NamedTuple):
    """A kNN-LM ready to generate."""

    model: "KNNLMForCausalLM"
    tokenizer: Any


def load(
    store: str | Path | Entries,
    *,
    model: str | Path | LanguageModel | None = None,
    component: str | None = None,
    key: str | None = None,
    metric: str | None = None,
    mask: str | None = None,
    score: Score | None = None,
    k: int | None = None,
    lam: float | None = None,
    temperature: float | None = None,
    device: str | None = None,
) -> Loaded:
    """A store and its base LM as one Hugging Face model, at the tuned settings or given ones, and
    its tokenizer.

    `component` names one of the store's to use in the place of the search. The tokenizer begins
    texts with bos where the model has one, as the store's documents begin."""
    from knnlm.integrations.transformers.model import KNNLMForCausalLM

    opened = the_store(store)
    if component is not None:
        refuse_retrieval(
            "--temperature-knn",
            key=key,
            metric=metric,
            mask=mask,
            score=score,
            k=k,
            temperature=temperature,
        )
        found = load_distilled(opened, component)
        lm = the_model(opened, model, device)
        distilled = found if lam is None else found._replace(lam=lam)
        return Loaded(
            KNNLMForCausalLM.from_component(lm, opened, distilled), with_bos(lm.tokenizer)
        )
    tuned = the_settings(
        opened,
        key=key,
        metric=metric,
        mask=mask,
        score=score,
        k=k,
        lam=lam,
        temperature=temperature,
        tau_option="--temperature-knn",
    )
    lm = the_model(opened, model, device)
    return Loaded(KNNLMForCausalLM.from_parts(lm, opened, tuned), with_bos(lm.tokenizer))
