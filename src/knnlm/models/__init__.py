"""W_sm: the base language model. Text → documents → tokens → windows; presets; training; loading.

This room knows how text becomes token ids and how a model is made or opened. It knows nothing of
stored states, search or mixing."""
