"""Training a base LM from scratch, with texts as a user names them."""

from pathlib import Path

from knnlm.argument_types import check_types
from knnlm.models import Preset, preset_named
from knnlm.text import HeldOut, Source, Text, open_text
from knnlm.training import TrainingResult
from knnlm.training import train as train_model


@check_types
def train(
    text: Text,
    path: str | Path,
    *,
    valid: Text | None = None,
    preset: str | Preset = "demo",
    seed: int = 0,
) -> TrainingResult:
    """Train a tokenizer and a base LM from scratch; an interrupted run resumes.

    Args:
        text: The training text: a path or several, `HubDataset(…)` or `PythonDocs()`.
        path: The folder of the model.
        valid: The validation text. By default the text's own validation split; of a text without
            splits, the last 5 % of each document are held out.
        preset: Size and recipe: "smoke", "demo", "laptop" or "paper", or a `Preset`.
        seed: Decides the first weights, the order of the text and dropout.

    Returns:
        The folder of the model, its size, and its perplexities; `load_model(path)` opens it.

    Raises:
        UsageError: The preset is unknown, the seed is out of range, or a text does not exist.
        KnnlmError: A text cannot be read or is too short, the folder holds something else, or
            training diverges.

    Example:
        >>> train(PythonDocs(), "model", preset="smoke")            # doctest: +SKIP
    """
    chosen = preset_named(preset) if isinstance(preset, str) else preset
    training: Source = open_text(text, "train")
    validation: Source = open_text(text if valid is None else valid, "valid")
    if valid is None and validation == training:
        training, validation = HeldOut(training, "train"), HeldOut(training, "valid")
    return train_model(training, validation, chosen, Path(path), seed=seed)
