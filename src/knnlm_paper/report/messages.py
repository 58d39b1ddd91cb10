"""The titles of figures: a message about the laptop results, which a person wrote and docs/why.md
relies on; at other scales what is drawn."""

from knnlm_paper.results import Results

_MESSAGES = {
    "ladder": "Neighbors help the LM, and help it as much once it is calibrated",
    "reasons": "With a fitted temperature, searching by att or by an index gains nothing",
    "regimes-index": "Approximate search beats exact search in no LM",
    "regimes-att": "att beats ffn only in an LM that has barely been trained",
    "regimes-gain": "The less an LM knows of its text, the more neighbors help",
    "shares": "In these LMs many votes gain more than the nearest ones",
    "beside": "Neighbors still help beside other LMs",
    "sizes": "More entries help up to the end",
    "temperatures": "All settings have the same best temperature here, far from τ = 1",
    "ensembles": "Neighbors are worth as much as a further LM",
}
_DRAWN = {
    "ladder": "One LM, alone and with neighbors",
    "reasons": "The effects behind the paper's three reasons",
    "regimes-index": "An index instead of exact search, in every LM",
    "regimes-att": "att instead of ffn, in every LM",
    "regimes-gain": "Neighbors, in every LM",
    "shares": "Shares of the neighbors' gain",
    "beside": "Neighbors beside other LMs",
    "sizes": "The size of the datastore",
    "temperatures": "Perplexity against the retrieval temperature",
    "ensembles": "Several LMs, with and without neighbors",
}


def title(results: Results, figure: str) -> str:
    """The title of a figure."""
    return (_MESSAGES if results.scale.name == "laptop" else _DRAWN)[figure]
