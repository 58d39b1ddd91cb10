"""Many conditions measured once: shared work, a resumable run, records with their provenance.

condition    what the runner needs to know of one setting of the equation
scales       what "smoke" and "demo" mean            texts      train, validation and test text
lms          base LMs that an experiment trains or opens
searches     what one search depends on              derive     datastores made from datastores
workspace    the work that conditions share, done once and resumed
runner       conditions → records                    records    the folder of records, and its claim
provenance   command, commit, versions, machine      plan       time and disk before anything runs
demo         `knnlm demo`, an experiment of eight conditions (demo_results: what it shows)
"""

from knnlm.experiments.condition import Condition
from knnlm.experiments.demo import Demo, demo_as_json, run_demo
from knnlm.experiments.lms import BaseLM, Checkpoint, ExistingLM
from knnlm.experiments.records import Claim, ResultsFolder, load_records
from knnlm.experiments.runner import Outcome, run
from knnlm.experiments.searches import SearchSpec, largest_k
from knnlm.experiments.texts import Texts
from knnlm.experiments.workspace import SearchData, Workspace

__all__ = [
    "BaseLM",
    "Checkpoint",
    "Claim",
    "Condition",
    "Demo",
    "ExistingLM",
    "Outcome",
    "ResultsFolder",
    "SearchData",
    "SearchSpec",
    "Texts",
    "Workspace",
    "demo_as_json",
    "largest_k",
    "load_records",
    "run",
    "run_demo",
]
