"""Parity-aware BPE against its definition, the textbook, and the library's own trainer."""

import json
import time
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from strategies import examples, loaded, tokenizers_with_gaps
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.tokenizer.spec import TokenizerSpec, merge_ids
from tokhelpers.train.parity import count_languages, learn_parity, worst_compressed

LANGUAGES = ["en", "fi", "el", "hi"]


def characters(alphabet: str, merges=()) -> Tokenizer:
    """A tokenizer of these characters, whose pre-tokens are words."""
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def library_merges(tokenizer, training, development, n, **options) -> list[tuple[str, str]]:
    options = {"variant": "base"} | options | {"num_merges": n, "show_progress": False}
    trainer = trainers.ParityBpeTrainer(**options)
    documents = (
        [
            iter([w for w, k in dict(Counter(text)).items() for _ in range(k)])
            for text in texts.values()
        ]
        for texts in (training, development)
    )
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = tokenizer.pre_tokenizer
    training, development = documents
    trainer.train_from_iterator(trained, training, dev_iterators=development)
    return [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts that yield fewer
        return function(*args, **options)


words = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 9), min_size=1)
languages = st.integers(1, 4).flatmap(lambda n: st.lists(words, min_size=n, max_size=n))
both = languages.flatmap(
    lambda texts: st.tuples(
        st.just(texts), st.lists(words, min_size=len(texts), max_size=len(texts))
    )
)


def named(texts) -> dict[str, dict[str, int]]:
    return {f"language {i}": text for i, text in enumerate(texts)}


@examples(300)
@given(both, st.integers(1, 3), st.integers(1, 12))
def test_from_scratch_equals_textbook_and_library(texts, min_frequency, n):
    """As long as all merges make new tokens: a token made twice counts as one here, as two there."""
    training, development = map(named, texts)
    base = characters("abc")
    options = {"development": development, "min_frequency": min_frequency}
    learned = quietly(th.continue_parity_bpe, base, training, n, **options)
    slow = textbook.train_parity_bpe(
        training, development, len(learned.merges), min_frequency=min_frequency
    )
    assert list(learned.merges) == slow
    assert learned.tokens == [*dict.fromkeys(map("".join, slow))]
    library = library_merges(base, training, development, len(slow), min_frequency=min_frequency)
    if len(set(slow)) == len(slow):
        # of a pair that is merged twice the library's model keeps the second
        assert library == slow


def continued_slowly(base: Tokenizer, training, development, n_tokens: int):
    """By its definition: encode all texts, ask the language worst off, add its best merge, encode anew."""
    spec, merges, frequencies, choosing = TokenizerSpec.from_tokenizer(base), [], [], list(training)
    while len(spec.vocab) < base.get_vocab_size() + n_tokens and choosing:
        model = spec.to_tokenizer().model
        lengths = {
            language: sum(n * len(model.tokenize(word)) for word, n in text.items())
            for language, text in development.items()
        }
        worst, pairs = max(choosing, key=lengths.get), Counter()
        for word, n in training[worst].items():
            for pair in pairwise(token.value for token in model.tokenize(word)):
                pairs[pair] += n
        if not pairs:
            choosing.remove(worst)
            continue
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        frequencies.append(pairs[best])
        vocab = {"".join(best): spec.next_id} | spec.vocab
        rows = np.concatenate([spec.merges, merge_ids(vocab, [best])]).astype(np.int32)
        spec = TokenizerSpec(spec.settings, vocab, rows)
    return merges, frequencies


@examples(200)
@given(tokenizers_with_gaps(), both, st.integers(1, 8))
def test_continued_training_sees_what_an_encoder_leaves(base, texts, n_tokens):
    training, development = map(named, texts)
    if not TokenizerSpec.from_tokenizer(base).pairs():
        return  # as from scratch
    learned = quietly(th.continue_parity_bpe, base, training, n_tokens, development=development)
    slow = continued_slowly(base, training, development, n_tokens)
    assert (list(learned.merges), list(learned.frequencies)) == slow
    longer = th.extend(base, learned)
    assert th.unreachable_tokens(longer, learned.tokens) == []
    for k in range(len(learned.tokens)):
        short = th.continue_parity_bpe(base, training, k, development=development)
        assert th.extend(base, learned, k).to_str() == th.extend(base, short).to_str()


def texts_of(chars: int) -> tuple[dict, dict]:
    training = {code: list(th.load_corpus(f"wordfreq:{code}", chars=chars)) for code in LANGUAGES}
    return training, {code: text[::7] for code, text in training.items()}


@pytest.mark.parametrize("chars", [20_000, pytest.param(400_000, marks=pytest.mark.long)])
def test_a_tokenizer_from_scratch_equals_the_library_merge_for_merge(chars):
    training, development = texts_of(chars)
    n = chars // 50
    trained = th.train_parity_bpe(training, vocab_size=256 + n, development=development)
    merges = TokenizerSpec.from_tokenizer(trained).pairs()
    assert merges == library_merges(trained, training, development, len(merges))
    assert trained.get_vocab_size() == 256 + n
    assert trained.decode(trained.encode("Hyvää päivää, κόσμε").ids) == "Hyvää päivää, κόσμε"


def test_another_rule_of_choice_gives_the_librarys_window_variant():
    """A language that chose more than 2 / 4 of the last 100 merges is passed over."""
    rng, base = np.random.default_rng(0), characters("abcdefgh")
    lengths = dict(zip(LANGUAGES, (4, 5, 6, 20), strict=True))  # the last stays the worst
    texts = {
        language: {"".join(rng.choice(list("abcdefgh"), length)): 1 for _ in range(60)}
        for language, length in lengths.items()
    }

    def within_window(choosing, tokens, chosen):
        few = [i for i in choosing if chosen[-100:].count(i) <= 50]
        return worst_compressed(few or choosing, tokens, chosen)

    spec = TokenizerSpec.from_tokenizer(base)
    counts = count_languages(texts, texts, spec)
    learned, chosen = {}, {"base": [], "window": []}
    for variant, choose in {"base": worst_compressed, "window": within_window}.items():
        options = {"choose": choose, "chosen": chosen[variant]}
        _, learned[variant], _, _ = learn_parity(*counts, spec, 200, **options)
        assert len(chosen[variant]) == len(learned[variant])
        merges = library_merges(base, texts, texts, len(learned[variant]), variant=variant)
        assert list(learned[variant]) == merges
    assert learned["base"] != learned["window"]
    assert chosen["base"].count(3) > chosen["window"].count(3)


def test_counts_give_what_documents_give_and_one_language_is_enough():
    training, development = texts_of(20_000)
    base = th.train_byte_level_bpe(training["en"], vocab_size=400)
    learned = th.continue_parity_bpe(base, training, 50, development=development)
    counts = [
        {code: th.count_pretokens(text, base) for code, text in texts.items()}
        for texts in (training, development)
    ]
    again = th.continue_parity_bpe(base, counts[0], 50, development=counts[1])
    assert learned == again
    alone = th.continue_parity_bpe(base, {"fi": training["fi"]}, 50, development={"fi": ["a"]})
    assert len(alone.tokens) == 50
    for k in (10, 50):
        assert th.unreachable_tokens(th.extend(base, learned, k), learned.tokens[:k]) == []


def test_a_sentencepiece_tokenizer_gets_characters_and_keeps_its_rules(mistral):
    training = {"chr": ["ᎠᎡ ᎠᎡ ᎠᎡᎢ sata"] * 9, "fi": ["kissa kissalle 77 77 77"] * 9}
    learned = th.continue_parity_bpe(mistral, training, 6, development=training)
    assert (learned.tokens[:3], learned.characters) == (["Ꭰ", "Ꭱ", "Ꭲ"], 3)
    assert not any("7" in token for token in learned.tokens)


@pytest.mark.long
def test_eleven_languages_on_llama_3_take_less_than_a_minute():
    codes = [c for c in th.text.training_languages() if c not in ("eng_Latn",)][:11]
    llama = TokenizerSpec.from_tokenizer(loaded("llama-3"))
    training = {c: th.count_pretokens(th.load_corpus(f"training:{c}"), llama) for c in codes}
    start = time.process_time()
    learned = th.continue_parity_bpe(llama, training, 4_000, development=training)
    assert time.process_time() - start < 60
    assert len(learned.tokens) == 4_000


@pytest.mark.parametrize(
    ("corpora", "development", "error", "message"),
    [
        (["a"], ["a"], TypeError, "corpora must map languages to corpora, not list"),
        ({"en": ["a"]}, ["a"], TypeError, "development must map languages to corpora, not list"),
        ({}, {}, ValueError, "corpora has no languages"),
        ({"en": ["a"]}, {"fi": ["a"]}, ValueError, "different languages, first 'en'"),
    ],
)
def test_what_is_no_mapping_of_languages_is_refused(corpora, development, error, message):
    base = characters("ab")
    with pytest.raises(error, match=message):
        th.continue_parity_bpe(base, corpora, 1, development=development)
    with pytest.raises(error, match=message):
        th.train_parity_bpe(corpora, vocab_size=300, development=development)


def test_a_vocabulary_that_is_too_small_and_texts_that_yield_too_little():
    texts = {"en": ["aa"]}
    with pytest.raises(ValueError, match="vocab_size=255 is smaller than the 257"):
        th.train_parity_bpe(texts, vocab_size=255, development=texts, special_tokens=["<s>"])
    with pytest.warns(UserWarning, match="asked for a vocabulary of 300; these texts yield 257"):
        th.train_parity_bpe(texts, vocab_size=300, development=texts)
    with pytest.warns(UserWarning, match="asked for 9 new tokens; these texts yield 1"):
        th.continue_parity_bpe(characters("ab"), texts, 9, development=texts)
