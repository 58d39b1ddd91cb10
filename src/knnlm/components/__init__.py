"""M, /τ, Ŵ: every predictor that gives log p(token) from hidden states.

`Component` is the one abstract base (base.py). Its siblings: `KNN`, the neighbors themselves, live
or from the cache; `FullDatastore`, all entries; `Clusters`, the datastore compressed; `Head`,
`MixtureOfSoftmaxes` and `MLP`, learned from the entries; `Mixture`, several of them as one. What is
kept with a datastore is found by name (stored.py). λ is not here: evaluation/ mixes."""

from knnlm.components.base import Component as Component
from knnlm.components.base import LearnedComponent as LearnedComponent
from knnlm.components.base import Loader as Loader
from knnlm.components.base import Logs as Logs
from knnlm.components.base import Queries as Queries
from knnlm.components.base import QueryArrays as QueryArrays
from knnlm.components.base import SavedState as SavedState
from knnlm.components.base import ScoredTokens as ScoredTokens
from knnlm.components.base import TargetScores as TargetScores
from knnlm.components.base import check_temperature as check_temperature
from knnlm.components.clusters import Clusters as Clusters
from knnlm.components.clusters import TokenShares as TokenShares
from knnlm.components.clusters import token_shares as token_shares
from knnlm.components.full_datastore import FullDatastore as FullDatastore
from knnlm.components.head import Head as Head
from knnlm.components.head import row_scores as row_scores
from knnlm.components.knn import KNN as KNN
from knnlm.components.knn import TargetVotes as TargetVotes
from knnlm.components.knn import log_weights as log_weights
from knnlm.components.mixture import Mixture as Mixture
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes as MixtureOfSoftmaxes
from knnlm.components.mlp import MLP as MLP
from knnlm.components.saving import load_component as load_component
from knnlm.components.stored import KNN_NAME as KNN_NAME
from knnlm.components.stored import check_component_name as check_component_name
from knnlm.components.stored import component_checksum as component_checksum
from knnlm.components.stored import component_folder as component_folder
from knnlm.components.stored import component_record as component_record
from knnlm.components.stored import describe_component as describe_component
from knnlm.components.stored import list_components as list_components
from knnlm.components.stored import load_stored as load_stored
from knnlm.components.stored import open_component as open_component
from knnlm.components.stored import publish_component as publish_component
from knnlm.components.stored import verify_component as verify_component
