"""The paper: an experiment for each of its tables and figures, what it printed, what is claimed,
what came out here.

    scales         how large: which text, which base LMs, which k, fractions, seeds
    retrieval      one way of retrieving: a value for every symbol of the equation
    measurement    what measurements have in common
    conditions/    one file for each kind of condition: settings, needs, cost, measurement
    measuring/     the work that conditions share while they are measured
    experiments/   one file for each question: a name, the paper's labels and conditions
    plan           what they would cost              runner     experiments → records on disk
    results        the records of a folder, and what is asked of them
    expected       every number that the paper printed
    claims, findings …   its claims as checks over results
    report/        results → RESULTS.md, a page, figures

An experiment knows nothing of files; what is measured knows nothing of experiments. Reading results
needs no torch.
"""
