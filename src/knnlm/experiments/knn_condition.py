"""The condition that most experiments begin with: neighbors of one key, one metric and one search,
λ and τ tuned on validation text, everything reported on test text."""

from dataclasses import dataclass

from knnlm.components import KNN_NAME
from knnlm.defaults import NPROBE
from knnlm.evaluation import Evaluation, TunedSettings, evaluate, tune
from knnlm.experiments.condition import Condition
from knnlm.experiments.searches import SearchSpec
from knnlm.experiments.workspace import Workspace
from knnlm.files import fingerprint
from knnlm.progress import log
from knnlm.search import Retrieval, index_manifest
from knnlm.similarity import Metric


@dataclass(frozen=True)
class KNNMeasurement:
    """What a `KNNCondition` gave."""

    factory: str
    """"exact", or the factory string of the index, which says more than its name."""
    tuned: TunedSettings
    evaluation: Evaluation


@dataclass(frozen=True, kw_only=True)
class KNNCondition(Condition[Workspace, KNNMeasurement]):
    """A kNN-LM of the main LM and all of its datastore."""

    measurement_type = KNNMeasurement
    key: str
    metric: Metric
    exact: bool
    k: int

    @property
    def name(self) -> str:
        """Key, metric and kind of search."""
        return f"{self.key}-{self.metric}-{'exact' if self.exact else 'index'}"

    @property
    def search(self) -> SearchSpec:
        """The search that it needs."""
        nprobe = None if self.exact else NPROBE
        return SearchSpec(state=self.key, metric=self.metric, exact=self.exact, nprobe=nprobe)

    @property
    def searches(self) -> dict[SearchSpec, int]:
        """The one search, with its k."""
        return {self.search: self.k}

    def made_with(self, workspace: Workspace) -> str:
        """A fingerprint of k, which is not part of the name."""
        return fingerprint({"k": self.k})[:16]

    def retrieval(self, workspace: Workspace) -> Retrieval:
        """The search as the datastore knows it; LM, datastore and index are made if they are
        not."""
        return workspace.retrieval(self.search, self.k)

    def measure(self, workspace: Workspace) -> KNNMeasurement:
        """Tuned settings and the evaluation of the test text."""
        data, retrieval = workspace.data(self.search), self.retrieval(workspace)
        knn, control = workspace.knn(self.search, self.k), workspace.control(self.search)
        tuned = tune(knn, data.valid, name=KNN_NAME, control=control.valid)
        evaluation = evaluate(tuned.component, data.test, tuned.settings, control.test)
        log.info(f"{self.name}: {evaluation.base_ppl:.1f} → {evaluation.interp_ppl:.1f}")
        factory = "exact"
        if retrieval.index is not None:
            factory = index_manifest(data.store, retrieval.index)["factory"]
        return KNNMeasurement(factory, tuned.settings, evaluation)
