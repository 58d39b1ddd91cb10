"""Ŵ: components learned from the entries of a datastore, without running the LM again; and base LMs
trained from scratch.

loop              the training loop, with exact resume
checkpoint        a training run on disk
language_model    a base LM from scratch
token_batches     which tokens an update sees
fit               a module fitted to entries
entry_batches     which entries an update sees
initial           what is learned and how it begins
learn             the losses of components
clustering        a datastore as clusters
soft_targets      neighbors in other documents as teachers
distillation      components kept beside a datastore
defaults          which component is made by default
"""
