"""The algorithms in plain Python, written to be read: short, slow, standard library only.

BPE and Unigram as the lecture teaches them, Algorithms 1-9 of the thesis (training, tokenizing
and extending WordPiece, SentencePiece BPE and byte-level BPE), AdaptBPE, and a pruning order.
The lecture: T. Chakraborty, Tokenization Strategies (ELL881/AIL821, IIT Delhi).
The thesis: J. Kim, master's thesis, Seoul National University, 2025, sections 4.1 and 4.3.

The names in the code, and the symbols of the printed algorithms:

    words            C         the training text: word -> count, or an iterable of words
    word             C         a word to tokenize
    tokens           chunk     a word as a list of tokens
    corpus           C_uni     all words as tokens: a list of (tokens, count)
    counts           C_bi      pair (or merged token) -> count
    pair, token      p, v      the pair to merge, and the merged token
    vocab            V         token -> ID, in ID order, so that list(vocab) has the tokens
    merges           M         the merge rules, pairs of tokens, in learned order
    supplement       V_D, M_D  the vocabulary (and the merge rules) that an extension adds
    extended, rules  V_N, M_N  the vocabulary and the merge rules after an extension

All functions have in common:
- Words are already normalised and pre-tokenized (lines 2-3 of Algorithms 1-6).
- A pair is counted at every position (aaa has the pair a, a twice) and merged from left to right
  without overlap (aaa becomes aa, a). The printed loops read one token past the end of the word.
- Ties go to the pair with the smaller IDs, the first ID before the second. With the printed
  comparison by > the order of the documents would decide.
- A token that is produced again keeps its first ID. `V[v] = i`, as printed, would change it.
- `trace` is a list that receives one dict per step, with what a teacher would write on the board.
- Training ends early if no pair is left, or none that occurs `min_frequency` times. It raises
  ValueError for a corpus without characters, for counts that are not positive integers, for a
  vocab_size below the size of the alphabet, and for a min_frequency above every count.
- Arguments are never changed. "Mended, line N" marks where a printed line contradicts its text.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]  # SentencePiece's, for byte fallback

# Byte-level BPE writes a byte as one visible character: itself if it is printable, else the next
# free one from code point 256 on (Radford et al., 2019). BYTE_CHARS[byte] is that character.
_PRINTABLE = {*range(33, 127), *range(161, 173), *range(174, 256)}
_HIDDEN = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_CHARS = [chr(b if b in _PRINTABLE else 256 + _HIDDEN.index(b)) for b in range(256)]


# ---- shared by the algorithms --------------------------------------------------------------------
def count_pairs(corpus):
    """Count the pairs of adjacent tokens in a list of (tokens, count), at every position.

    >>> count_pairs([(["a", "a", "a"], 5), (["b", "a"], 8)])
    Counter({('a', 'a'): 10, ('b', 'a'): 8})
    """
    counts = Counter()
    for tokens, count in corpus:
        for pair in pairwise(tokens):
            counts[pair] += count
    return counts


def merge_pair(tokens, pair, merged):
    """Merge a pair wherever it occurs in a word, from left to right and without overlap.

    >>> merge_pair(["a", "a", "a"], ("a", "a"), "aa")
    ['aa', 'a']
    """
    tokens, k = list(tokens), 0
    while k < len(tokens) - 1:
        if (tokens[k], tokens[k + 1]) == pair:
            tokens[k : k + 2] = [merged]
        k += 1
    return tokens


def merge(tokens, pair):
    """Merge a pair of strings or bytes; the merged token is their concatenation.

    >>> merge([b"c", b"a", b"t"], (b"a", b"t"))
    [b'c', b'at']
    """
    return merge_pair(tokens, pair, pair[0] + pair[1])


def learn(words, k):
    """Learn the first k merges of plain BPE, or fewer if no pair is left (lesson 01).

    words: a list of (tokens, count); tokens are strings or bytes. Ties go to the pair that occurs
    first, so the order of the words may decide.

    >>> learn([(["c", "a", "t"], 10), (["b", "a", "g"], 12)], 2)
    [('b', 'a'), ('ba', 'g')]
    """
    merges = []
    while len(merges) < k and (pairs := count_pairs(words)):
        best = max(pairs, key=pairs.get)
        merges.append(best)
        words = [(merge(tokens, best), count) for tokens, count in words]
    return merges


def encode(tokens, ranks):
    """Merge the pair of lowest rank, leftmost first, until no pair has a rank (lesson 01).

    ranks: pair -> its index in the list of merges. This is how `tokenizers`, `tiktoken` and
    `sentencepiece` encode. `apply_merges` gives the same if each rule follows those that produce its
    parts, as in training.

    >>> encode("abc", {("a", "bc"): 0, ("b", "c"): 1})
    ['abc']
    """
    tokens = list(tokens)
    while ranked := [(ranks[p], k) for k, p in enumerate(pairwise(tokens)) if p in ranks]:
        _, k = min(ranked)
        tokens[k : k + 2] = [tokens[k] + tokens[k + 1]]
    return tokens


def apply_merges(tokens, merges, trace=None):
    """Apply each merge rule once to a word, in learned order, wherever it matches.

    trace: dicts with rule (None at the start) and tokens (after). Source: Algorithms 5 and 6.

    >>> apply_merges("abc", [("b", "c"), ("a", "bc")])
    ['abc']
    """
    tokens = list(tokens)
    _note(trace, rule=None, tokens=tokens)
    for rule in map(tuple, merges):
        before, tokens = tokens, merge_pair(tokens, rule, "".join(rule))
        if len(tokens) < len(before):
            _note(trace, rule=rule, tokens=tokens)
    return tokens


def _note(trace, **step):
    if trace is not None:
        trace.append(step)


def _new_ids(vocab):
    """Count on from the largest ID; IDs may have gaps, so the size of vocab would be wrong."""
    return itertools.count(max(vocab.values(), default=-1) + 1)


def _ids_of(tokens, vocab):
    if missing := [token for token in tokens if token not in vocab]:
        raise ValueError(
            f"the token {missing[0]!r} is not in vocab: vocab must contain all characters or bytes, "
            "the unknown token if one is needed, and the added tokens"
        )
    return [vocab[token] for token in tokens]


def _count_words(words, special_tokens=()):
    """Count the words; raise TypeError or ValueError for impossible input."""
    for name, value in {"words": words, "special_tokens": special_tokens}.items():
        if isinstance(value, str):
            raise TypeError(f"{name} is one string, {value[:20]!r}: give a list of strings")
    counts = Counter(words)
    for word, count in counts.items():
        if count < 1 or count % 1:
            raise ValueError(f"the word {word!r} has count {count!r}: give whole numbers from 1 on")
    if not any(counts):
        raise ValueError("the corpus is empty: give at least one word with a character in it")
    return {word: int(count) for word, count in counts.items()}


def _start(words, split, vocab_size, min_frequency=0, special_tokens=(), byte_tokens=()):
    """Return the words as tokens with counts, and the initial vocabulary."""
    corpus = [(split(word), count) for word, count in _count_words(words, special_tokens).items()]
    alphabet = sorted({token for tokens, _ in corpus for token in tokens})
    tokens = dict.fromkeys([*special_tokens, *byte_tokens, *alphabet])  # each once
    if len(tokens) > vocab_size:
        raise ValueError(
            f"vocab_size={vocab_size} is smaller than the {len(tokens)} special tokens, bytes and "
            f"characters that training starts from: give at least {len(tokens)}"
        )
    highest = max(count_pairs(corpus).values(), default=min_frequency)
    if highest < min_frequency and len(tokens) < vocab_size:
        raise ValueError(
            f"min_frequency={min_frequency} is larger than every count: the most frequent "
            f"candidate occurs {highest} times, give at most that"
        )
    return corpus, {token: i for i, token in enumerate(tokens)}


# ---- plain BPE, as the lecture does it -----------------------------------------------------------
def train_bpe(words, vocab_size, *, min_frequency=0, special_tokens=(), trace=None):
    """Train plain BPE: merge the most frequent pair until the vocabulary is full.

    Returns (vocab, merges). trace: dicts with counts, merge, token, corpus (after the merge).
    Source: the lecture, section Byte-Pair Encoding.

    >>> train_bpe({"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}, 9)[1]
    [('a', 't'), ('a', 'g'), ('c', 'at')]
    """
    corpus, vocab = _start(words, list, vocab_size, min_frequency, special_tokens)
    merges = []
    while len(vocab) < vocab_size:
        counts = count_pairs(corpus)
        candidates = [pair for pair in counts if counts[pair] >= min_frequency]
        if not candidates:
            break
        pair = min(candidates, key=lambda pair: (-counts[pair], vocab[pair[0]], vocab[pair[1]]))
        token = "".join(pair)
        vocab.setdefault(token, len(vocab))
        merges.append(pair)
        corpus = [(merge_pair(tokens, pair, token), count) for tokens, count in corpus]
        _note(trace, counts=dict(counts), merge=pair, token=token, corpus=corpus)
    return vocab, merges


def tokenize_bpe(word, vocab, merges, *, unk="[UNK]", trace=None):
    """Tokenize a word with plain BPE: each merge rule once, in learned order, wherever it matches.

    Returns the list of tokens; a character that is not in vocab becomes `unk`. trace: as for
    `apply_merges`. Source: the lecture, section BPE Algorithm.

    >>> vocab, merges = train_bpe({"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}, 9)
    >>> tokenize_bpe("bags", vocab, merges), tokenize_bpe("mat", vocab, merges)
    (['b', 'ag', 's'], ['[UNK]', 'at'])
    """
    return apply_merges([char if char in vocab else unk for char in word], merges, trace)


# ---- WordPiece: Algorithms 1, 4, 7 ---------------------------------------------------------------
def train_wordpiece(
    words, vocab_size, *, min_frequency=0, prefix="##", special_tokens=(), tie="ids", trace=None
):
    """Train WordPiece: merge the pair with the best score (thesis, Algorithm 1).

    The score of a pair is its frequency over the product of its two tokens' frequencies, an
    exact fraction. Returns vocab; WordPiece has no merge rules (the trace has them).
    tie: "ids" takes the smaller IDs, "first" the pair that occurs first in the corpus (lecture).
    trace: as for `train_bpe`, with scores. Raises ValueError if a word contains the prefix.

    >>> list(train_wordpiece({"flow": 4, "flower": 1, "flowed": 1}, 9))
    ['##d', '##e', '##l', '##o', '##r', '##w', 'f', '##ed', '##er']
    """
    if tie not in ("ids", "first"):
        raise ValueError(f"tie={tie!r} is unknown: give 'ids' or 'first'")

    def split(word):
        if prefix and prefix in word:
            raise ValueError(
                f"the word {word!r} contains the prefix {prefix!r}, which marks tokens inside words: "
                "give another prefix, or split the word"
            )
        return [*word[:1], *(prefix + char for char in word[1:])]

    corpus, vocab = _start(words, split, vocab_size, min_frequency, special_tokens)
    while len(vocab) < vocab_size:
        counts, frequency = count_pairs(corpus), Counter()
        for tokens, count in corpus:
            for token in tokens:
                frequency[token] += count
        # Mended, lines 42-44: rare characters have the best scores, so a minimum above 1 would end
        # training at the first pair; instead, pairs below the minimum are not candidates.
        candidates = {pair: n for pair, n in counts.items() if n >= min_frequency}
        if not candidates:
            break
        # Mended, line 36: the thesis divides by C_bi.count(pair[0]), counting a token in a list of
        # pairs; its formula has the frequencies of the two tokens in the corpus.
        scores = {p: Fraction(n, frequency[p[0]] * frequency[p[1]]) for p, n in candidates.items()}
        if tie == "first":
            pair = max(scores, key=scores.get)
        else:
            pair = min(scores, key=lambda pair: (-scores[pair], vocab[pair[0]], vocab[pair[1]]))
        # Mended, line 45: strip would remove the prefix at both ends, and repeatedly.
        token = pair[0] + pair[1].removeprefix(prefix)
        vocab.setdefault(token, len(vocab))
        corpus = [(merge_pair(tokens, pair, token), count) for tokens, count in corpus]
        _note(trace, counts=dict(counts), scores=scores, merge=pair, token=token, corpus=corpus)
    return vocab


def tokenize_wordpiece(word, vocab, *, prefix="##", unk="[UNK]", chunk_max=100, trace=None):
    """Tokenize a word with WordPiece: from the left, the longest match first (Algorithm 4).

    Returns the list of IDs. A word that tokens cannot cover, or of more than `chunk_max` characters,
    becomes `unk`; raises ValueError if that is not in vocab.
    trace: dicts with chunk (the word), tried, token (None if none matches).

    >>> vocab = {v: i for i, v in enumerate(["[UNK]", "f", "##u", "##s", "##e", "##d", "##ed"])}
    >>> [list(vocab)[i] for i in tokenize_wordpiece("fused", vocab)]
    ['f', '##u', '##s', '##ed']
    """
    start, tokens = 0, []
    while len(word) <= chunk_max and start < len(word):
        tried = []
        for end in range(len(word), start, -1):
            tried.append((prefix if start > 0 else "") + word[start:end])
            if tried[-1] in vocab:
                break
        token = tried[-1] if tried[-1] in vocab else None
        _note(trace, chunk=word, tried=tried, token=token)
        if token is None:  # the thesis uses unk itself as the mark, which a word may contain
            break
        tokens.append(token)
        start = end
    return _ids_of(tokens if start == len(word) else [unk], vocab)


def extend_wordpiece(vocab, supplement, *, trace=None):
    """Extend a WordPiece vocabulary by the tokens of a supplement (thesis, Algorithm 7).

    Returns vocab followed by the supplement's tokens that are not in it, in the supplement's order.
    trace: dicts with token, id, new (False if vocab has the token).

    >>> extend_wordpiece({"a": 0, "##b": 1}, {"##b": 0, "ab": 1})
    {'a': 0, '##b': 1, 'ab': 2}
    """
    extended, new_ids = dict(vocab), _new_ids(vocab)
    for token in sorted(supplement, key=supplement.get):
        if token not in vocab:
            extended[token] = next(new_ids)
        _note(trace, token=token, id=extended[token], new=token not in vocab)
    return extended


# ---- SentencePiece BPE: Algorithms 2, 5, 8 -------------------------------------------------------
def train_sentencepiece_bpe(
    words, vocab_size, *, min_frequency=0, special_tokens=(), byte_tokens=BYTE_TOKENS, trace=None
):
    """Train SentencePiece BPE, which counts merged tokens instead of pairs (thesis, Algorithm 2).

    words: with spaces written as U+2581. byte_tokens: for byte fallback; () for none.
    Returns (vocab, merges): all pairs that build the chosen token become rules. Ties go to the
    shorter token, then to the smaller code points, as in `sentencepiece` (which continues with
    tokens of frequency 0 when no pair is left). trace: dicts with counts (of merged tokens), token, merges,
    corpus (after).

    >>> train_sentencepiece_bpe({"▁low": 5, "▁slow": 2}, 8, byte_tokens=())[1]
    [('l', 'o'), ('lo', 'w'), ('▁', 'low')]
    """
    corpus, vocab = _start(words, list, vocab_size, min_frequency, special_tokens, byte_tokens)
    merges = []
    while len(vocab) < vocab_size:
        pairs, counts = count_pairs(corpus), Counter()
        for pair, count in pairs.items():
            counts["".join(pair)] += count
        # Mended, line 44: the best frequency is compared, not the last one seen.
        candidates = [token for token in counts if counts[token] >= min_frequency]
        if not candidates:
            break
        token = min(candidates, key=lambda token: (-counts[token], len(token), token))
        vocab.setdefault(token, len(vocab))
        # There is never more than one pair per step: a string between two token boundaries is
        # segmented in the same way wherever it occurs.
        rules = [pair for pair in pairs if "".join(pair) == token]
        merges += rules
        for pair in rules:
            corpus = [(merge_pair(tokens, pair, token), count) for tokens, count in corpus]
        _note(trace, counts=dict(counts), token=token, merges=rules, corpus=corpus)
    return vocab, merges


def tokenize_sentencepiece_bpe(word, vocab, merges, *, byte_tokens=BYTE_TOKENS, trace=None):
    """Tokenize a word with SentencePiece BPE: the merge rules in order, then byte fallback.

    word: with the space before it written as U+2581. Returns the list of IDs. A character that is
    not in vocab becomes the tokens of its UTF-8 bytes; raises ValueError if these are missing.
    trace: as for `apply_merges`. Source: thesis, Algorithm 5.

    >>> vocab, merges = train_sentencepiece_bpe({"▁low": 5, "▁slow": 2}, 264)
    >>> [list(vocab)[i] for i in tokenize_sentencepiece_bpe("▁blow", vocab, merges)]
    ['▁', '<0x62>', 'low']
    """
    tokens = []
    for token in apply_merges(word, merges, trace):
        if token in vocab or not byte_tokens:
            tokens.append(token)
        else:  # mended, line 31: over the bytes of the token, not over the chunk
            tokens += [byte_tokens[byte] for byte in token.encode()]
    return _ids_of(tokens, vocab)


def extend_sentencepiece_bpe(vocab, merges, supplement, supplement_merges, *, trace=None):
    """Extend SentencePiece BPE by a supplement, with a rule for every split of a new token.

    Returns (extended, rules): first the supplement's new characters, then its new merged tokens
    in rule order, with a rule for every split into two tokens that exist by then.
    trace: dicts with token, id and merges (the rules added for it). Source: thesis, Algorithm 8.

    >>> old, new = {"a": 0, "b": 1, "ab": 2}, {"a": 0, "b": 1, "c": 2, "bc": 3, "abc": 4}
    >>> extend_sentencepiece_bpe(old, [("a", "b")], new, [("b", "c"), ("a", "bc")])[1]
    [('a', 'b'), ('b', 'c'), ('a', 'bc'), ('ab', 'c')]
    """
    extended, rules, new_ids = dict(vocab), [tuple(rule) for rule in merges], _new_ids(vocab)
    characters = [token for token in sorted(supplement, key=supplement.get) if len(token) == 1]
    for token in [*characters, *map("".join, supplement_merges)]:
        if token in extended:
            continue
        # Mended, line 13: as printed, the supplement's rule m would be appended once per split; the
        # rule of the split itself is meant.
        splits = [(token[:k], token[k:]) for k in range(1, len(token))]
        added = [(left, right) for left, right in splits if left in extended and right in extended]
        rules += added
        extended[token] = next(new_ids)
        _note(trace, token=token, id=extended[token], merges=added)
    return extended, rules


# ---- byte-level BPE: Algorithms 3, 6, 9 ----------------------------------------------------------
def _byte_characters(word):
    return [BYTE_CHARS[byte] for byte in word.encode()]


def train_byte_level_bpe(words, vocab_size, *, min_frequency=0, special_tokens=(), trace=None):
    """Train byte-level BPE: plain BPE over the UTF-8 bytes of the words (thesis, Algorithm 3).

    words: as plain text. Returns (vocab, merges), with tokens in byte characters (`BYTE_CHARS`): a
    space is Ġ. All 256 are in vocab, after the special tokens, in code-point order; the result is
    that of the Hugging Face BPE trainer. trace: as for `train_bpe`.

    >>> train_byte_level_bpe({" né": 2, " no": 1}, 259)[1]
    [('Ġ', 'n'), ('Ã', '©'), ('Ġn', 'Ã©')]
    """
    words = _count_words(words, special_tokens)
    words = {"".join(_byte_characters(word)): count for word, count in words.items()}
    # Mended, lines 24-27: the corpus has byte characters only, and these have IDs already.
    # Mended, line 44: `train_bpe` compares the best frequency, not the last one seen.
    initial = [*special_tokens, *sorted(BYTE_CHARS)]
    options = {"min_frequency": min_frequency, "special_tokens": initial, "trace": trace}
    return train_bpe(words, vocab_size, **options)


def train_parity_bpe(words, development, n_merges, *, min_frequency=1, split=list, trace=None):
    """Train parity-aware BPE: the language with the worst compression chooses each pair.

    words, development: language -> training text, and its translation of the same development
    text. The language with most tokens in its development text (ties: the first) chooses the most
    frequent pair of its own training text (ties: the last in code-point order). All languages merge
    it. One without a pair that occurs `min_frequency` times chooses no more. split: cuts a word into
    the tokens to start from. Returns merges, the same ones as the Hugging Face ParityBpeTrainer.
    trace: dicts with language, lengths (tokens of the development texts before the merge), merge.
    Source: Foroutan et al., Parity-Aware Byte-Pair Encoding, 2025.

    >>> words = {"en": {"cat": 9, "bat": 5}, "fi": {"kissa": 1}}
    >>> train_parity_bpe(words, {"en": ["cat"], "fi": ["kissa"]}, 3)
    [('s', 's'), ('ss', 'a'), ('a', 't')]
    """
    corpora, measured = (
        {lang: [(split(w), n) for w, n in Counter(text).items()] for lang, text in texts.items()}
        for texts in (words, development)
    )
    merges, choosing = [], list(corpora)
    while len(merges) < n_merges and choosing:
        lengths = {lang: sum(len(w) * n for w, n in text) for lang, text in measured.items()}
        worst = max(choosing, key=lengths.get)
        counts = count_pairs(corpora[worst])
        candidates = [pair for pair in counts if counts[pair] >= min_frequency]
        if not candidates:
            choosing.remove(worst)
            continue
        pair = max(candidates, key=lambda pair: (counts[pair], pair))
        merges.append(pair)
        for texts in (corpora, measured):
            for lang, text in texts.items():
                texts[lang] = [(merge(tokens, pair), n) for tokens, n in text]
        _note(trace, language=worst, lengths=lengths, merge=pair)
    return merges


def tokenize_byte_level_bpe(word, vocab, merges, *, trace=None):
    """Tokenize a word with byte-level BPE: bytes, then the merge rules in order (Algorithm 6).

    word: as plain text. Returns the list of IDs. Raises ValueError if a byte is not in vocab.
    trace: as for `apply_merges`.

    >>> vocab, merges = train_byte_level_bpe({" né": 2, " no": 1}, 259)
    >>> [list(vocab)[i] for i in tokenize_byte_level_bpe(" nó", vocab, merges)]
    ['Ġn', 'Ã', '³']
    """
    return _ids_of(apply_merges(_byte_characters(word), merges, trace), vocab)


def extend_byte_level_bpe(vocab, merges, supplement, supplement_merges, *, trace=None):
    """Extend byte-level BPE by a supplement, with the rules that the supplement learned.

    As `extend_sentencepiece_bpe`, but each new merged token has only the supplement's rule for it.
    Source: thesis, Algorithm 9.

    >>> old, new = {"a": 0, "b": 1, "ab": 2}, {"a": 0, "b": 1, "c": 2, "bc": 3, "abc": 4}
    >>> extend_byte_level_bpe(old, [("a", "b")], new, [("b", "c"), ("a", "bc")])[1]
    [('a', 'b'), ('b', 'c'), ('a', 'bc')]
    """
    extended, rules, new_ids = dict(vocab), [tuple(rule) for rule in merges], _new_ids(vocab)
    characters = [token for token in sorted(supplement, key=supplement.get) if len(token) == 1]
    for parts in [*characters, *map(tuple, supplement_merges)]:
        token = "".join(parts)
        if token not in extended:
            added = [parts] if len(token) > 1 else []
            rules += added
            extended[token] = next(new_ids)
            _note(trace, token=token, id=extended[token], merges=added)
    return extended, rules


# ---- Unigram -------------------------------------------------------------------------------------
def unigram_seed(words):
    """Count the substrings of the words, the initial tokens of Unigram.

    Returns substring -> count, in code-point order: all characters, and all longer substrings that
    are shorter than their word.

    >>> unigram_seed({"run": 3, "bug": 5})
    {'b': 5, 'bu': 5, 'g': 5, 'n': 3, 'r': 3, 'ru': 3, 'u': 8, 'ug': 5, 'un': 3}
    """
    seed = Counter()
    for word, count in _count_words(words).items():
        for start, end in itertools.combinations(range(len(word) + 1), 2):
            if end - start == 1 or end - start < len(word):
                seed[word[start:end]] += count
    return dict(sorted(seed.items()))


def tokenize_unigram(word, p, *, unk="<unk>"):
    """Find a word's most probable segmentation by the Viterbi algorithm.

    p: token -> probability. Returns (tokens, natural logarithm of their probability). Ties, to
    nine digits, go to the longer first token (lecture). A character that is not a token becomes
    `unk`, with e**-10 times the smallest probability of a token, as in `sentencepiece`.

    >>> tokens, score = tokenize_unigram("run", {"r": 0.02, "u": 0.2, "n": 0.2, "ru": 0.02})
    >>> tokens, round(math.exp(score), 6)
    (['ru', 'n'], 0.004)
    """
    best = [0.0] * (len(word) + 1)  # best[k]: the score of the best segmentation of word[k:]
    first = [""] * len(word)  # first[k]: the first token of that segmentation
    for start in reversed(range(len(word))):
        scores = {}
        for end in range(len(word), start, -1):
            token = word[start:end]
            if p.get(token, 0) > 0:
                scores[token] = math.log(p[token]) + best[end]
        if word[start] not in scores:
            smallest = min(probability for probability in p.values() if probability > 0)
            scores[word[start]] = math.log(smallest) - 10 + best[start + 1]
        first[start] = max(scores, key=lambda token: round(scores[token], 9))  # ties: the longest
        best[start] = scores[first[start]]
    tokens, start = [], 0
    while start < len(word):
        tokens.append(first[start] if p.get(first[start], 0) > 0 else unk)
        start += len(first[start])
    return tokens, best[0]


def unigram_expected_counts(words, p):
    """Compute the expected count of each token over all segmentations (the E-step of EM).

    Uses the forward-backward algorithm instead of listing segmentations. p: token -> probability.
    Returns (token -> expected count, natural log-likelihood of the corpus). Raises ValueError if
    no tokens spell a word. Source: Kudo, Subword Regularization, 2018, section 3.2.

    >>> counts, _ = unigram_expected_counts({"ab": 3}, {"a": 0.5, "b": 0.4, "ab": 0.1})
    >>> {token: round(count, 9) for token, count in counts.items()}
    {'a': 2.0, 'b': 2.0, 'ab': 1.0}
    """
    expected, likelihood = dict.fromkeys(p, 0.0), 0.0
    for word, count in sorted(_count_words(words).items()):
        n, score = len(word), {}  # score: log-probability of each matching token, by its span
        for j, k in itertools.combinations(range(n + 1), 2):
            if p.get(word[j:k], 0) > 0:
                score[j, k] = math.log(p[word[j:k]])
        forward, backward = [0.0] * (n + 1), [0.0] * (n + 1)  # log sums: up to here, from here on
        for k in range(1, n + 1):
            forward[k] = _log_sum([forward[j] + score[j, k] for j in range(k) if (j, k) in score])
        for j in reversed(range(n)):
            ends = [k for k in range(j + 1, n + 1) if (j, k) in score]
            backward[j] = _log_sum([score[j, k] + backward[k] for k in ends])
        if forward[n] == -math.inf:
            raise ValueError(f"no tokens of p spell the word {word!r}: add every character to p")
        for (j, k), log_p in score.items():
            expected[word[j:k]] += count * math.exp(forward[j] + log_p + backward[k] - forward[n])
        likelihood += count * forward[n]
    return expected, likelihood


def _log_sum(logs):
    """The logarithm of a sum of numbers given by their logarithms."""
    top = max(logs, default=-math.inf)
    if top == -math.inf:  # no token ends, or starts, here
        return top
    return top + math.log(sum(math.exp(term - top) for term in logs))


def train_unigram(
    words, vocab_size, *, seed=None, e_step="expected", drop=0.1, log=math.log, digits=None,
    trace=None,
):  # fmt: skip
    """Train Unigram: EM for the probabilities, then pruning of the tokens that are needed least.

    Returns token -> probability, in descending order (ties, to ten digits: code points), with
    `vocab_size` tokens, or all of the seed if it has fewer. Characters of the corpus are kept.
    seed: token -> count, by default `unigram_seed(words)`. e_step: "expected" counts over all
    segmentations (Kudo, 2018), "substrings" uses the seed's counts (lecture). After two rounds of
    EM a share `drop` of the longer tokens is pruned, at least one: those whose removal gives the
    smallest loss (negative log-likelihood of the best segmentations); ties, to nine digits, go to
    the last in code-point order.
    log, digits: logarithm of the loss, digits of probabilities (on the slides math.log10 and 4).
    trace: dicts with p, segmentation (word -> (tokens, log p)), loss, losses (token -> loss without
    it; empty at the end), removed.
    Raises ValueError if a character is not in the seed. Source: the lecture, section Unigram.

    >>> words, trace = {"run": 3, "bug": 5, "fun": 13, "sun": 10}, []
    >>> slides = {"e_step": "substrings", "drop": 0, "log": math.log10, "digits": 4}
    >>> p = train_unigram(words, 11, **slides, trace=trace)
    >>> [(round(step["loss"], 3), step["removed"]) for step in trace]
    [(66.102, ['un']), (61.155, ['ug']), (60.106, [])]
    """
    if e_step not in ("expected", "substrings"):
        raise ValueError(f"e_step={e_step!r}: give 'expected' or 'substrings'")
    words = dict(sorted(_count_words(words).items()))
    seed = unigram_seed(words) if seed is None else dict(sorted(seed.items()))
    _, alphabet = _start(words, list, vocab_size)
    if missing := sorted(alphabet.keys() - seed.keys()):
        raise ValueError(f"the seed lacks {missing}: it must contain every character of the corpus")
    p, removed = {token: count / sum(seed.values()) for token, count in seed.items()}, [""]
    while removed:
        p = {token: p[token] for token in p if token not in removed}
        for _ in range(2):
            p = _em_round(words, p, e_step, seed, alphabet, digits)
        best, unit = {word: tokenize_unigram(word, p) for word in words}, log(math.e)
        loss = -unit * math.fsum(count * best[word][1] for word, count in words.items())
        increase = {}  # of the loss when a token is removed
        if len(p) > vocab_size:
            candidates = [token for token in p if token not in alphabet]
            increase = {token: unit * _loss_of(token, words, p, best) for token in candidates}
        order = sorted(sorted(increase, reverse=True), key=lambda token: round(increase[token], 9))
        removed = order[: min(max(1, int(drop * len(order))), len(p) - vocab_size)]
        losses = {token: loss + increase[token] for token in increase}
        _note(trace, p=p, segmentation=best, loss=loss, losses=losses, removed=removed)
    return dict(sorted(p.items(), key=lambda item: (-float(f"{item[1]:.9e}"), item[0])))


def _em_round(words, p, e_step, seed, alphabet, digits):
    """Count the tokens (E-step), and return each one's share of all counts (M-step)."""
    if e_step == "expected":
        counts, _ = unigram_expected_counts(words, p)
    else:
        counts = {token: seed[token] for token in p}
    for char in alphabet:
        counts[char] = max(counts[char], 1)  # so that every word can be segmented
    total = math.fsum(counts.values())
    p = {token: count / total for token, count in counts.items()}
    return p if digits is None else {token: round(p[token], digits) for token in p}


def _loss_of(token, words, p, best):
    """The decrease in log-likelihood of the words' best segmentations when a token is removed."""
    others = {other: p[other] for other in p if other != token}
    affected = [word for word in words if token in best[word][0]]
    return math.fsum(words[w] * (best[w][1] - tokenize_unigram(w, others)[1]) for w in affected)


# ---- AdaptBPE: Algorithm 1 -----------------------------------------------------------------------
def tokenize_adapt_bpe(text, vocab, merges, added, *, trace=None):
    """Tokenize with AdaptBPE: the longest matches of added tokens first, then BPE.

    text: one word or an iterable of words, written like the tokens of vocab (byte characters for
    byte-level BPE). added: a list of tokens of vocab. Returns the list of tokens. Of equally long
    matches the leftmost is taken. Then the pair of lowest rank is merged repeatedly, wherever it
    occurs; with merge rules in learned order this equals `encode`.
    trace: dicts with match and tokens (so far), then with rule and tokens (after). Raises
    ValueError if a token is not in vocab. Source: Balde et al., 2024, Algorithm 1.

    >>> vocab, merges = train_bpe({"hyper": 5, "cholera": 3}, 16)
    >>> tokenize_adapt_bpe("hyperchol", vocab | {"chol": 16}, merges, ["chol"])
    ['hyper', 'chol']
    """
    if isinstance(added, str):
        raise TypeError(f"added is one string, {added[:20]!r}: give a list of tokens")
    ranks = {tuple(rule): rank for rank, rule in enumerate(merges)}
    result = []
    for word in [text] if isinstance(text, str) else text:
        tokens = _split_at_matches(word, added, trace)
        # Mended, lines 22 and 45: a word of one token has no pairs.
        while pairs := [pair for pair in pairwise(tokens) if pair in ranks]:
            rule = min(pairs, key=ranks.get)
            tokens = merge_pair(tokens, rule, "".join(rule))  # mended, line 32: ends with the word
            _note(trace, rule=rule, tokens=tokens)
        result += tokens  # line 50, once per word: its indentation leaves this open
    _ids_of([*added, *result], vocab)
    return result


def _split_at_matches(word, added, trace):
    """Split a word into added tokens, the longest first, and the characters between them."""
    places = range(len(word))
    matches = [(-len(t), k, t) for t in added for k in places if t and word.startswith(t, k)]
    # Mended, lines 15-17: the printed mark of matched characters, "-", occurs in words and tokens.
    # Mended, line 21: as printed only the matches are kept; its comment includes the rest.
    parts, covered = dict(enumerate(word)), set()  # parts: place -> the part that starts there
    for _, start, token in sorted(matches):
        span = range(start, start + len(token))
        if covered.isdisjoint(span):
            covered.update(span)
            parts = {k: part for k, part in parts.items() if k not in span} | {start: token}
            _note(trace, match=token, tokens=[parts[k] for k in sorted(parts)])
    return [parts[k] for k in sorted(parts)]


# ---- pruning: the paper's Algorithm 1 ------------------------------------------------------------
def prune_leaves(vocab, merges, counts, *, unreachable=(), trace=None):
    """Order tokens for pruning: the least frequent leaf first; its count is added to its parts.

    merges: one per token that has any, the last that produces it. counts: token -> frequency in a
    text. unreachable: tokens that no merge produces; they are leaves. Other tokens without a
    merge are atomic and never pruned. Returns the tokens in the order of pruning; ties go to the
    larger ID. trace: dicts with token, count, parts (to which the count was added).
    Source: Purason et al., 2025, Algorithm 1 (frequency leaf pruning).

    >>> vocab = {token: i for i, token in enumerate(["a", "b", "c", "ab", "abc"])}
    >>> prune_leaves(vocab, [("a", "b"), ("ab", "c")], {"ab": 1, "abc": 2})
    ['abc', 'ab']
    """
    parts_of = {"".join(rule): tuple(rule) for rule in merges}
    atomic = vocab.keys() - parts_of.keys() - set(unreachable)
    uses = Counter(part for parts in parts_of.values() for part in set(parts))
    counts, order = Counter(counts), []
    leaves = {token: counts[token] for token in vocab if token not in atomic and not uses[token]}
    while leaves:
        token = min(leaves, key=lambda leaf: (leaves[leaf], -vocab[leaf]))
        count = leaves.pop(token)
        order.append(token)
        parts = parts_of.get(token, ())
        for part in parts:  # mended: the printed line updates those "in queue", not there yet
            counts[part] += count
        for part in sorted(set(parts)):
            uses[part] -= 1
            if uses[part] == 0 and part not in atomic:
                leaves[part] = counts[part]
        _note(trace, token=token, count=count, parts=list(parts))
    return order
