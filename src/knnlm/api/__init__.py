"""The objects that users hold: `Datastore` and `KNNLM`, and `train` for a base LM from scratch.

Each method decides what the user left open (choices.py) and hands over to the room that does the
work; results show themselves in a terminal and in a notebook (results.py).
"""

from knnlm.api.datastore import Datastore as Datastore
from knnlm.api.explain import explain_passage as explain_passage
from knnlm.api.inventory import DatastoreInfo as DatastoreInfo
from knnlm.api.inventory import VerifyResult as VerifyResult
from knnlm.api.model import KNNLM as KNNLM
from knnlm.api.results import EvaluationResult as EvaluationResult
from knnlm.api.results import Explanation as Explanation
from knnlm.api.results import Generation as Generation
from knnlm.api.training import train as train
