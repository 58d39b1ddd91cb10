"""W_sm: the base language model, softmax(W_sm · h_sm) in the equation.

This room makes an untrained model from a preset (`new_model`) and opens a trained one
(`load_model`): any causal LM of Hugging Face, from a folder, the hub or a GGUF file, with its
tokenizer, its PEFT adapter, and a fingerprint that keeps a datastore from being used with another
model. Training is in `knnlm.training`; hidden states are read in `knnlm.hidden_states`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
