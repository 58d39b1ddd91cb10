"""The kinds of conditions that the paper's questions need, one file or folder for each.

A kind owns its settings, name and label, the LMs and searches it needs, its cost, how it is
measured and what its measurement is. None of them imports torch before it is measured. A new kind
is one file, its test, and one line in `KINDS`.
"""

from typing import Any

from knnlm_paper.conditions.base import PaperCondition as PaperCondition
from knnlm_paper.conditions.combined import Combined as Combined
from knnlm_paper.conditions.ensemble import Ensemble as Ensemble
from knnlm_paper.conditions.full_datastore import FullDatastore as FullDatastore
from knnlm_paper.conditions.knn import KNN as KNN
from knnlm_paper.conditions.learned import Learned as Learned
from knnlm_paper.conditions.neighbor_counts import NeighborCounts as NeighborCounts
from knnlm_paper.conditions.place_in_text import PlaceInText as PlaceInText
from knnlm_paper.conditions.reachability import Reachability as Reachability
from knnlm_paper.conditions.temperature_curve import TemperatureCurve as TemperatureCurve
from knnlm_paper.conditions.token_list import TokenList as TokenList
from knnlm_paper.conditions.word_types import WordTypes as WordTypes

KINDS: dict[str, type[PaperCondition[Any]]] = {
    kind.kind: kind
    for kind in (
        KNN,
        TemperatureCurve,
        NeighborCounts,
        FullDatastore,
        Learned,
        Combined,
        Ensemble,
        TokenList,
        PlaceInText,
        WordTypes,
        Reachability,
    )
}
"""Every kind, by the name that its records have."""
