"""Records → RESULTS.md, one HTML page and figures. Nothing here is typed by hand: the same records
give the same bytes.

tables      records → tables of text, ours beside the paper's
figures     records → SVG
words       findings → sentences
markdown    all of it as Markdown; page: the same as HTML
"""

from knnlm_paper.report.report import Report as Report
from knnlm_paper.report.report import write_report as write_report
