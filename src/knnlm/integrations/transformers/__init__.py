"""A kNN-LM as a Hugging Face model: generate(), pipelines, Trainer.evaluate, save_pretrained.

Importing this package registers the model with transformers' Auto classes, so that
`AutoModelForCausalLM.from_pretrained` opens a saved kNN-LM.
"""

from knnlm.integrations.transformers.config import KNNLMConfig as KNNLMConfig
from knnlm.integrations.transformers.generation import Generated as Generated
from knnlm.integrations.transformers.generation import Sampling as Sampling
from knnlm.integrations.transformers.generation import generate as generate
from knnlm.integrations.transformers.model import KNNLMForCausalLM as KNNLMForCausalLM
from knnlm.integrations.transformers.model import TokenScores as TokenScores
