"""Reports: one document model and its renderers for terminal, Markdown and HTML.

`document` holds the model, `terminal`, `markdown` and `html` render it, `demo` builds the demo's
document. A report is given finished numbers; nothing here measures.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
