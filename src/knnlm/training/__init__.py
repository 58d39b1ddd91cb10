"""Ŵ: components learned from the entries of a datastore, without running the LM again; and base LMs
trained from scratch.

loop              the training loop, with exact resume
checkpoint        a training run on disk
language_model    a base LM from scratch
token_batches     which tokens an update sees
fit               a module fitted to entries
entry_batches     which entries an update sees
kinds             what can be learned, as data
initial           how each kind starts
objectives        the losses
learn             a component learned from entries
clustering        a datastore as clusters
soft_targets      neighbors in other documents as teachers
distillation      components kept with a datastore
"""

from knnlm.training.clustering import cluster as cluster
from knnlm.training.distillation import Distilled as Distilled
from knnlm.training.distillation import DistillRequest as DistillRequest
from knnlm.training.distillation import combine as combine
from knnlm.training.distillation import distill as distill
from knnlm.training.distillation import load_distilled as load_distilled
from knnlm.training.fit import FitResult as FitResult
from knnlm.training.fit import FitSettings as FitSettings
from knnlm.training.initial import initial_clusters as initial_clusters
from knnlm.training.initial import initial_module as initial_module
from knnlm.training.kinds import KINDS as KINDS
from knnlm.training.kinds import ComponentSpec as ComponentSpec
from knnlm.training.kinds import component_spec as component_spec
from knnlm.training.language_model import CHECKPOINTS as CHECKPOINTS
from knnlm.training.language_model import RECORD as RECORD
from knnlm.training.language_model import Teacher as Teacher
from knnlm.training.language_model import TrainingResult as TrainingResult
from knnlm.training.language_model import train as train
from knnlm.training.learn import DEFAULT_FIT as DEFAULT_FIT
from knnlm.training.learn import Learned as Learned
from knnlm.training.objectives import CrossEntropy as CrossEntropy
from knnlm.training.objectives import InterpolatedLoss as InterpolatedLoss
from knnlm.training.objectives import Objective as Objective
from knnlm.training.objectives import SoftTargetLoss as SoftTargetLoss
