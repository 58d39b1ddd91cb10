"""M, /τ, Ŵ: every predictor that gives log p(token) from hidden states.

`Component` is the one abstract base (base.py). Its siblings: `KNN`, the neighbors themselves, live
or from the cache; `FullDatastore`, all entries; `Clusters`, the datastore compressed; `Head`,
`MixtureOfSoftmaxes` and `MLP`, learned from the entries; `Mixture`, several of them as one. What is
kept with a datastore is found by name (stored.py). λ is not here: evaluation/ mixes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
