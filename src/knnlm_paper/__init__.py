"""The paper: one recipe for each of its tables and figures, what it printed, what is claimed, what
came out here.

    scales      how large: which text, which base LMs, which k, fractions, seeds
    rows        what one measurement is: an Arm names every symbol of the equation
    recipes/    one file for each question; a recipe is a name, the paper's labels and its rows
    plan        the work that rows share: LMs, stores, indexes, searches, each once
    workshop    does that work, or finds it done
    measure     a row → its record
    runner      rows → records on disk, resumable
    expected    every number the paper printed
    findings    its claims as checks over records
    present/    records → RESULTS.md, a page, figures

A recipe knows nothing of files; the workshop knows nothing of recipes.
"""
