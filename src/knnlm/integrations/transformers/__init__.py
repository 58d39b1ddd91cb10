"""The kNN-LM as a Hugging Face model: generate(), pipelines, Trainer.evaluate, save_pretrained,
lm-evaluation-harness.

Importing this room registers the model with transformers' Auto classes. It knows transformers;
everything that decides a probability is in the rooms before it."""

from knnlm.integrations.transformers.config import KNNLMConfig as KNNLMConfig
from knnlm.integrations.transformers.model import KNNLMForCausalLM as KNNLMForCausalLM
