from .corpora import (
    Corpus as Corpus,
    load_corpus as load_corpus,
)
from .count_files import (
    load_counts as load_counts,
    merge_counts as merge_counts,
    save_counts as save_counts,
)
from .counting import count_pretokens as count_pretokens
from .documents import digest as digest
from .pretokens import Pretokens as Pretokens
from .shipped_counts import (
    mixture as mixture,
    stored_texts as stored_texts,
    training_languages as training_languages,
    training_sources as training_sources,
)
