"""The control of an evaluation: the calibrated LM, fitted on one text and measured on another.

Fitting takes some tokens of the validation text. On the test text, log p at the fitted T is stored
while the text is read; a text that was read before takes one more pass over its logits, which is
kept with it.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.components import Logs
from knnlm.datastore import (
    MANIFEST,
    ColumnType,
    Entries,
    TableWriter,
    evenly_spaced,
    open_table,
    verify_table,
)
from knnlm.disk import refuse_links, remove_folder
from knnlm.errors import KnnlmError
from knnlm.evaluation.calibration import (
    Calibration,
    TemperedLM,
    calibrate,
    unigram_logprobs,
)
from knnlm.evaluation.mixing import mix
from knnlm.files import fingerprint
from knnlm.locks import write_lock
from knnlm.progress import log

LEAST_SAMPLE, MOST_SAMPLE = 2048, 8192
_KIND = "tempered"
_COLUMN = "tempered_logprob"


class Control(NamedTuple):
    """The calibrated LM on some tokens of a validation text, to mix components with.

    Attributes:
        calibration: T and u.
        rows: The tokens that they were fitted on; the arrays below are of these.
        base: log p_LM.
        calibrated: log p of the calibrated LM.
    """

    calibration: Calibration
    rows: NDArray[np.int64]
    base: Logs
    calibrated: Logs


def fit_control(model: Any, store: Entries, valid: Entries) -> Control:
    """The calibrated LM, fitted on a tenth of a validation text: on at least 2,048 of its tokens if
    it has so many, and on at most 8,192.

    Args:
        model: The base LM.
        store: The datastore, whose tokens are counted.
        valid: The validation text, read by that LM, with ffn states.
    """
    rows = evenly_spaced(valid.count, min(max(valid.count // 10, LEAST_SAMPLE), MOST_SAMPLE))
    scores = TemperedLM(model, valid.key("ffn"), valid.targets).sample(rows)
    unigrams = unigram_logprobs(store.targets, scores.targets, store.vocab_size)
    base = valid.lm_logprob[rows].astype(np.float64)
    fitted = calibrate(scores, base, unigrams)
    return Control(fitted.calibration, rows, base, fitted.logprobs)


def control_logprobs(
    model: Any, store: Entries, queries: Entries, temperature: float, share: float
) -> Logs:
    """log p of a text's targets under the calibrated LM.

    Args:
        model: The base LM.
        store: The datastore, whose tokens are counted.
        queries: The text, read by that LM.
        temperature: T.
        share: u.
    """
    if temperature == 1:
        tempered = queries.lm_logprob
    elif queries.meta.get("softmax_temperature") == temperature:
        tempered = queries.columns[_COLUMN].all()
    else:
        tempered = _tempered(model, queries, temperature)
    unigrams = unigram_logprobs(store.targets, queries.targets, store.vocab_size)
    return mix(tempered.astype(np.float64), unigrams, share)


def _tempered(model: Any, queries: Entries, temperature: float) -> NDArray[np.float32]:
    """log p of a text's targets at T, by a pass over the logits that is kept with the text."""
    meta = {"queries": queries.fingerprint, "softmax_temperature": temperature}
    folder = queries.path / "tempered" / fingerprint(meta)[:16]
    if (folder / MANIFEST).is_file():
        try:
            return _read(folder)
        except KnnlmError as error:  # damaged, or not finished
            log.warning(f"{error}; computing it again")
    scores = TemperedLM(model, queries.key("ffn"), queries.targets)
    logs = scores.logprobs(temperature).astype("<f4")
    refuse_links(folder, below=queries.path)
    with write_lock(folder, patience=60):
        remove_folder(folder / "parts", below=folder, ignore_errors=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        with TableWriter(folder, _KIND, {_COLUMN: ColumnType("<f4", 0)}, meta) as writer:
            writer.append({_COLUMN: logs})
            writer.commit({})
            writer.finish({})
    return logs


def _read(folder: Path) -> NDArray[np.float32]:
    table = open_table(folder, _KIND)
    verify_table(table)
    logs: NDArray[np.float32] = table.columns[_COLUMN].all()
    return logs
