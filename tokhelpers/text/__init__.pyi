__all__ = [
    "Corpus",
    "Pretokens",
    "count_pretokens",
    "digest",
    "load_corpus",
    "load_counts",
    "save_counts",
    "stored_texts",
    "training_sources",
]

from .corpora import Corpus as Corpus
from .corpora import digest as digest
from .corpora import load_corpus as load_corpus
from .count_files import load_counts as load_counts
from .count_files import save_counts as save_counts
from .counting import count_pretokens as count_pretokens
from .pretokens import Pretokens as Pretokens
from .stored_counts import stored_texts as stored_texts
from .stored_counts import training_sources as training_sources
