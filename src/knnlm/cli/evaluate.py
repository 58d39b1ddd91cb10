"""knnlm eval"""

from typing import Any

from knnlm.cli.groups import EvaluationTextOptions, ModelOptions, SettingOptions
from knnlm.cli.options import Json, StorePath, show


def evaluate(
    store: StorePath,
    text: EvaluationTextOptions,
    model: ModelOptions,
    settings: SettingOptions,
    json: Json = False,
) -> None:
    """Report perplexities of a text with and without retrieval.

    The calibrated LM, which retrieves nothing, is the control: what retrieval adds to it is what
    only retrieval can do.

    Settings that are not given are those that tune found. With --component, a component is used
    instead of a search.

    A datastore built with --split has a test text. If its folder has moved, give the new path with
    --text: it is divided as before.

    Example: knnlm eval store --embedded
    """
    named = text.optional()  # a mistake there is told before model libraries are imported
    knnlm = model.open(store, settings)
    _ = knnlm.settings  # what is not tuned is said before a text is read
    result = knnlm.evaluate(named, allow_overlap=text.allow_overlap)
    retrieval = result.settings.retrieval
    setting: dict[str, Any] = (
        {"component": model.component, "keys": list(knnlm.component.keys)}
        if retrieval is None
        else retrieval.as_json()
    )
    show(json, {**setting, **result.as_json()}, [str(result)])
