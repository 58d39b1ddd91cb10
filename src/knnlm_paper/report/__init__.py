"""Results → RESULTS.md, one HTML page, figures and CSV files. Needs no torch.

changes, drawing               how numbers and figures look
claim_tables, paper_tables     claims and settings, paper and ours side by side
regimes                        the main effects in every LM
evidence, messages             what titles and sentences rely on, and titles
figures, sections              what is shown, in which order
csv_files, derived             everything else
"""

from knnlm_paper.report.write import Report as Report
from knnlm_paper.report.write import write_report as write_report
