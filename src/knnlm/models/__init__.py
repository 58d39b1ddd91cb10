"""W_sm: the base language model, softmax(W_sm · h_sm) in the equation.

This room makes an untrained model from a preset (`new_model`) and opens a trained one
(`load_model`): any causal LM of Hugging Face, from a folder, the hub or a GGUF file, with its
tokenizer, its PEFT adapter, and a fingerprint that keeps a datastore from being used with another
model. Training is in `knnlm.training`; hidden states are read in `knnlm.hidden_states`.
"""

from knnlm.models.load import PRECISIONS as PRECISIONS
from knnlm.models.load import LanguageModel as LanguageModel
from knnlm.models.load import hide_transformers_progress as hide_transformers_progress
from knnlm.models.load import load_model as load_model
from knnlm.models.load import model_fingerprint as model_fingerprint
from knnlm.models.presets import DEMO as DEMO
from knnlm.models.presets import LAPTOP as LAPTOP
from knnlm.models.presets import PAPER as PAPER
from knnlm.models.presets import PRESETS as PRESETS
from knnlm.models.presets import SMOKE as SMOKE
from knnlm.models.presets import Preset as Preset
from knnlm.models.presets import new_model as new_model
from knnlm.models.presets import preset_named as preset_named
from knnlm.models.summed_embeddings import SummedEmbeddings as SummedEmbeddings
from knnlm.models.summed_embeddings import vocabulary_size as vocabulary_size
