"""Many conditions measured once: shared work, a resumable run, records with their provenance.

condition    what the runner needs to know of one setting of the equation
scales       what "smoke" and "demo" mean            texts      train, validation and test text
base_lms     what it says of its base LMs            lms        those LMs, trained or opened
searches     what one search depends on              derive     datastores made from datastores
workspace    the work that conditions share, done once and resumed
runner       conditions → records                    records    the folder of records, and its claim
provenance   command, commit, versions, machine      plan       time and disk before anything runs
own          one's own conditions, LM and text: the way in
demo         `knnlm demo`, an experiment of eight conditions (demo_results: what it shows)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
