"""A kNN-LM as a Hugging Face model: generate(), pipelines, Trainer.evaluate, save_pretrained.

Importing this package registers the model with transformers' Auto classes, so that
`AutoModelForCausalLM.from_pretrained` opens a saved kNN-LM.
"""

from knnlm.huggingface.config import KNNLMConfig as KNNLMConfig
from knnlm.huggingface.generation import Generated as Generated
from knnlm.huggingface.generation import Sampling as Sampling
from knnlm.huggingface.generation import generate as generate
from knnlm.huggingface.model import KNNLMForCausalLM as KNNLMForCausalLM
from knnlm.huggingface.steps import TokenScores as TokenScores
