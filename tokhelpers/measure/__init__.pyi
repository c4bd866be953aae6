from .costly_words import costly_words as costly_words
from .explain import explain as explain
from .quality import (
    evaluate as evaluate,
    evaluate_sizes as evaluate_sizes,
    fragment_score as fragment_score,
    measurable as measurable,
    renyi_efficiency as renyi_efficiency,
    unreachable_tokens as unreachable_tokens,
    word_lengths as word_lengths,
)
from .reachability import reachability as reachability
from .samples import sample_documents as sample_documents
from .vocabularies import (
    compare_vocabularies as compare_vocabularies,
    describe_tokens as describe_tokens,
    overlap as overlap,
)
from .words import count_words as count_words
