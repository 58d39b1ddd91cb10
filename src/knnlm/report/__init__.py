"""What was measured, shown: one HTML page and one terminal table.

The package knows nothing of models, stores or searches: it is given finished numbers (`content`)
and shows them.
"""
