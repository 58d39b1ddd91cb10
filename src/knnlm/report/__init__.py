"""Reports: one document model and its renderers for terminal, Markdown and HTML.

`document` holds the model, `terminal`, `markdown` and `html` render it, `demo` builds the demo's
document. A report is given finished numbers; nothing here measures.
"""

from knnlm.report.document import Cell as Cell
from knnlm.report.document import Column as Column
from knnlm.report.document import Commands as Commands
from knnlm.report.document import Definition as Definition
from knnlm.report.document import DefinitionList as DefinitionList
from knnlm.report.document import Document as Document
from knnlm.report.document import Equation as Equation
from knnlm.report.document import Figure as Figure
from knnlm.report.document import Paragraph as Paragraph
from knnlm.report.document import Section as Section
from knnlm.report.document import Table as Table
from knnlm.report.document import TokenView as TokenView
from knnlm.report.document import text_table as text_table
