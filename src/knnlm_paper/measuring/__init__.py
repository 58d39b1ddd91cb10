"""What conditions share when they are measured: LMs, datastores and searches, scores, base-LM
numbers and temperatures. Needs torch; conditions import it when they are measured, not before.

workspace     the shared work, done once              scores         other scores for neighbors
base_lm       the LM alone, and calibrated            temperatures   one τ with its λ, the best τ
votes         neighbors at several τ                  documents      sums for each document
mixtures      several predictors, weights fitted      other_states   states but att and ffn
teaching      soft labels for a fresh LM
"""
