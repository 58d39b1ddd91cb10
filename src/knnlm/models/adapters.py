"""PEFT adapters, such as LoRA's: merged into a model's weights, so that all code after it sees a
plain model."""

import importlib.util
import warnings
from pathlib import Path
from typing import Any

from knnlm.errors import KnnlmError, first_line
from knnlm.models.location import hub_is_reachable


def merge_adapter(model: Any, adapter: str | Path) -> Any:
    """Merge an adapter into the weights of the model that it was made for.

    Args:
        model: A transformers model.
        adapter: A folder that PEFT saved, or a hub name.

    Raises:
        KnnlmError: There is no such adapter, it does not fit the model, or its kind cannot be
            merged.
    """
    if importlib.util.find_spec("peft") is None:
        raise KnnlmError("reading an adapter needs peft: run pip install peft")
    _check_folder(adapter)
    adapted = _adapted(model, adapter)
    if not hasattr(adapted, "merge_and_unload"):
        kind = adapted.peft_config["default"].peft_type.value
        raise KnnlmError(
            f"adapter {adapter} ({kind}) cannot be merged into weights: use one of LoRA's kind"
        )
    return adapted.merge_and_unload()


def _check_folder(adapter: str | Path) -> None:
    folder = Path(adapter)
    if folder.exists() and not (folder / "adapter_config.json").is_file():
        raise KnnlmError(
            f"{adapter} is not a PEFT adapter (no adapter_config.json): give a folder that PEFT "
            "saved"
        )
    if not folder.exists() and not hub_is_reachable():
        raise KnnlmError(
            f"there is no folder {adapter}, and no network to look for it on the hub: check the "
            "path"
        )


def _adapted(model: Any, adapter: str | Path) -> Any:
    """The model with the adapter beside its weights; each weight of the adapter has its place."""
    import peft

    try:
        with warnings.catch_warnings():
            # missing weights are refused below
            warnings.filterwarnings("ignore", message="Found missing adapter keys")
            adapted = peft.PeftModel.from_pretrained(model, str(adapter))
        expected = set(peft.get_peft_model_state_dict(adapted))
        given = set(peft.load_peft_weights(str(adapter), "cpu"))
    except Exception as error:  # foreign files may make any library raise anything
        raise KnnlmError(
            f"cannot apply adapter {adapter} to this model ({first_line(error)}): was it made for "
            "it?"
        ) from error
    if expected != given:
        raise KnnlmError(
            f"adapter {adapter} does not fit this model ({len(expected - given)} weights missing, "
            f"{len(given - expected)} too many, such as {min(expected ^ given)}): was it made for "
            "it?"
        )
    return adapted
