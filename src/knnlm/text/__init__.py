"""Text → documents → tokens → windows.

It comes before the equation: this room turns what a user names (paths, a Hugging Face data set, the
Python documentation) into the tokens that a model reads and predicts. `open_text` gives the
documents of a named text, `encode_documents` their token ids, and `cut_windows` cuts a document
longer than the model can read so that each of its tokens is predicted exactly once.

    for document in encode_documents(tokenizer, open_text("notes/", "train")):
        for window in cut_windows(len(document.tokens), window=512, stride=256):
            ...
"""

from knnlm.text.documents import SPLITS as SPLITS
from knnlm.text.documents import Document as Document
from knnlm.text.documents import Source as Source
from knnlm.text.documents import Split as Split
from knnlm.text.documents import count_words as count_words
from knnlm.text.documents import group_by_size as group_by_size
from knnlm.text.folder import Folder as Folder
from knnlm.text.hub import HubDataset as HubDataset
from knnlm.text.hub import HubSplit as HubSplit
from knnlm.text.local_files import Files as Files
from knnlm.text.naming import Text as Text
from knnlm.text.naming import open_text as open_text
from knnlm.text.naming import text_as_json as text_as_json
from knnlm.text.naming import text_from_json as text_from_json
from knnlm.text.portions import Excerpts as Excerpts
from knnlm.text.portions import FirstDocuments as FirstDocuments
from knnlm.text.portions import HeldOut as HeldOut
from knnlm.text.portions import WithoutDocuments as WithoutDocuments
from knnlm.text.python_docs import PythonDocs as PythonDocs
from knnlm.text.python_docs import PythonDocsSplit as PythonDocsSplit
from knnlm.text.tokenizer import CONTEXT_TOKENS_KEPT as CONTEXT_TOKENS_KEPT
from knnlm.text.tokenizer import END_OF_TEXT as END_OF_TEXT
from knnlm.text.tokenizer import EncodedDocument as EncodedDocument
from knnlm.text.tokenizer import decode_continuation as decode_continuation
from knnlm.text.tokenizer import encode_documents as encode_documents
from knnlm.text.tokenizer import encode_prompt as encode_prompt
from knnlm.text.tokenizer import joined_tokens as joined_tokens
from knnlm.text.tokenizer import tokenizer_fingerprint as tokenizer_fingerprint
from knnlm.text.tokenizer import tokenizer_rules as tokenizer_rules
from knnlm.text.tokenizer import train_tokenizer as train_tokenizer
from knnlm.text.tokenizer import with_bos as with_bos
from knnlm.text.wikitext import split_articles as split_articles
from knnlm.text.windows import Window as Window
from knnlm.text.windows import check_window as check_window
from knnlm.text.windows import cut_windows as cut_windows
