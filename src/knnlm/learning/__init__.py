"""Learning from the store, not through the LM: (state, token) rows in, the weights of a component out.

    rows   which rows an update sees: shuffled blocks of a memory-mapped store
    fit    the loop: AdamW, early stopping on validation rows, exact resume

The frozen LM is never run again. This room knows losses and tensors; what they mean is the component's affair.
"""
