"""M, /τ, Ŵ: everything that gives log p(token).

A component turns rows of states into log p(target) for evaluation, and one state into log p(·) for
generation. Here is the kNN component; learned substitutes of the store belong beside it. This room
knows nothing of λ."""
