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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
