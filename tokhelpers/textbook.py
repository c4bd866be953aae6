"""The algorithms, written to be read: short, slow, standard library only.

Plain BPE and Unigram as the lecture teaches them, and Algorithms 1-9 of the thesis: training
(1-3), tokenizing (4-6) and extending (7-9) WordPiece, SentencePiece BPE and byte-level BPE; then
AdaptBPE, and the paper's two pruning orders.
The thesis: J. Kim, master's thesis, Seoul National University, 2025, sections 4.1 and 4.3.
The lecture: T. Chakraborty, Tokenization Strategies (ELL881/AIL821, IIT Delhi).

What all of them share:
- Normalisation and pre-tokenization (lines 2-3 of Algorithms 1-6) are done before. `words` is
  a mapping word -> count, or an iterable of words; a word is what the thesis calls a chunk.
- `V` maps token -> id and stands in id order, so `list(V)` is the vocabulary. A form that comes
  up again keeps its first id: `V[v] = i`, as printed, would give it a second one.
- `M` is the list of merge rules, pairs of tokens, in learned order.
- Pairs are counted at every position (aaa holds two pairs a, a) and replaced from the left
  without overlap (aaa becomes aa, a). The printed loops look at chunk[k + 1] once past the end
  (and call the chunk they are in `word` and `w` in places).
- The printed comparison by > makes ties depend on the order of the documents. Here the smaller
  pair of ids wins, the first id before the second.
- `trace`, a list, receives one dict a step: the table that a teacher would write on the board.
- Input is checked; nothing is changed in place.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from numbers import Integral

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]  # SentencePiece's, for byte fallback

# Byte-level BPE writes a byte as one visible character: itself where it prints, else the next
# free one from code point 256 on (Radford et al., 2019). BYTE_CHARS[byte] is that character.
_PRINTED = {*range(33, 127), *range(161, 173), *range(174, 256)}
_HIDDEN = [byte for byte in range(256) if byte not in _PRINTED]
BYTE_CHARS = [chr(b if b in _PRINTED else 256 + _HIDDEN.index(b)) for b in range(256)]


def _checked(words, special_tokens=()):
    """Returns the counts of the words, or says in one sentence what is wrong with the input."""
    for name, given in {"words": words, "special_tokens": special_tokens}.items():
        if isinstance(given, (str, bytes)):
            raise TypeError(f"{name} is one string, {given[:20]!r}: give a list of strings")
    counts = Counter(words)
    for word, count in counts.items():
        if not isinstance(word, str):
            raise TypeError(f"the word {word!r} is of type {type(word).__name__}: give strings")
        if not isinstance(count, Integral) or count < 1:
            raise ValueError(f"the word {word!r} has count {count!r}: give whole numbers from 1 on")
        if any("\ud800" <= char <= "\udfff" for char in word):
            raise ValueError(f"the word {word!r} holds a lone surrogate: give valid Unicode text")
    if not any(counts):
        raise ValueError("the corpus is empty: give at least one word with a character in it")
    for token, count in Counter(special_tokens).items():
        if count > 1:
            raise ValueError(f"the special token {token!r} is given {count} times: give it once")
    return {word: int(count) for word, count in counts.items()}


def _check_size(V, vocab_size):
    if len(V) > vocab_size:
        raise ValueError(
            f"vocab_size={vocab_size} is smaller than the {len(V)} special tokens, bytes and "
            f"characters that training starts from: give at least {len(V)}"
        )


def _too_rare(min_frequency, counts):
    return ValueError(
        f"min_frequency={min_frequency} is larger than every count: the most frequent candidate "
        f"occurs {max(counts.values())} times, give at most that"
    )


# ---- plain BPE, as the lecture does it ---------------------------------------------------------


def train_bpe(words, vocab_size, *, min_frequency=0, special_tokens=(), trace=None):
    """Trains plain BPE: merges the most frequent pair until the vocabulary is full.

    words: word -> count, or an iterable of words. Returns (V, M), see the top of the module.
    Training ends early when no pair is left or the best occurs less than `min_frequency` times.
    trace: dicts with counts (pair -> count), merge, token, corpus ([tokens, count] after).
    Raises ValueError for an empty corpus, a vocab_size below the alphabet, a min_frequency above
    every count. Source: the lecture, section Byte-Pair Encoding.

    >>> V, M = train_bpe({"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}, 9)
    >>> list(V)
    ['a', 'b', 'c', 'g', 's', 't', 'at', 'ag', 'cat']
    >>> M
    [('a', 't'), ('a', 'g'), ('c', 'at')]
    """
    C = _checked(words, special_tokens)
    V, M = {}, []
    for v in [*special_tokens, *sorted(set("".join(C)))]:
        V.setdefault(v, len(V))
    _check_size(V, vocab_size)
    C_uni = [(list(word), count) for word, count in C.items()]

    while len(V) < vocab_size:
        C_bi = Counter()
        for chunk, count in C_uni:
            for pair in pairwise(chunk):
                C_bi[pair] += count
        if not C_bi:
            break
        pair_best = min(C_bi, key=lambda pair: (-C_bi[pair], V[pair[0]], V[pair[1]]))
        if C_bi[pair_best] < min_frequency:
            if not M:
                raise _too_rare(min_frequency, C_bi)
            break

        v = "".join(pair_best)
        V.setdefault(v, len(V))
        M.append(pair_best)
        for chunk, _ in C_uni:
            k = 0
            while k < len(chunk) - 1:
                if (chunk[k], chunk[k + 1]) == pair_best:
                    chunk[k : k + 2] = [v]
                k += 1
        if trace is not None:
            corpus = [(list(chunk), count) for chunk, count in C_uni]
            trace.append({"counts": dict(C_bi), "merge": pair_best, "token": v, "corpus": corpus})
    return V, M


def tokenize_bpe(text, V, M, *, unk="[UNK]", trace=None):
    """Tokenizes with plain BPE: the merge rules in learned order, each wherever it fits.

    text: one word or an iterable of words. Returns the list of tokens; a character that is not
    in V becomes `unk`, alone. trace: dicts with rule (None at the start) and tokens (after).
    Source: the lecture, section BPE Algorithm.

    >>> V, M = train_bpe({"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}, 9)
    >>> tokenize_bpe("bags", V, M)
    ['b', 'ag', 's']
    >>> tokenize_bpe("mat", V, M)
    ['[UNK]', 'at']
    """
    tokens = []
    for word in [text] if isinstance(text, str) else text:
        chunk = [char if char in V else unk for char in word]
        if trace is not None:
            trace.append({"rule": None, "tokens": list(chunk)})
        for m in map(tuple, M):
            k, before = 0, len(chunk)
            while k < len(chunk) - 1:
                if (chunk[k], chunk[k + 1]) == m:
                    chunk[k : k + 2] = ["".join(m)]
                k += 1
            if trace is not None and len(chunk) < before:
                trace.append({"rule": m, "tokens": list(chunk)})
        tokens += chunk
    return tokens


# ---- WordPiece: Algorithms 1, 4, 7 -------------------------------------------------------------


def train_wordpiece(
    words, vocab_size, *, min_frequency=0, prefix="##", special_tokens=(), tie="ids", trace=None
):
    """Algorithm 1: trains WordPiece, which merges the pair with the best score.

    The score of a pair is its frequency over the product of its two tokens' frequencies, an
    exact fraction. words: word -> count, or an iterable of words. Returns V: WordPiece keeps no
    merge rules (they stand in the trace). Ties: the smaller pair of ids; tie="first" takes the
    pair that comes first in the corpus, as the lecture's slides do.
    trace: dicts with counts and scores (by pair), merge, token, corpus ([tokens, count] after).
    Raises ValueError as `train_bpe` does, and for a word that contains the prefix.

    >>> words = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1, "flowers": 1, "flowing": 2,
    ...          "flows": 2, "flowed": 1}
    >>> list(train_wordpiece(words, 17, tie="first"))[-5:]
    ['f', 's', 'su', '##er', '##ed']
    """
    if tie not in ("ids", "first"):
        raise ValueError(f"tie={tie!r} is unknown: give 'ids' or 'first'")
    C = _checked(words, special_tokens)
    for word in C:
        if prefix and prefix in word:
            raise ValueError(
                f"the word {word!r} contains the prefix {prefix!r}, so that a token inside a word "
                "could not be told from one at its start: give another prefix, or split the word"
            )
    C_uni = [([*w[:1], *(prefix + char for char in w[1:])], count) for w, count in C.items()]
    V = {}
    for v in [*special_tokens, *sorted({token for chunk, _ in C_uni for token in chunk})]:
        V.setdefault(v, len(V))
    _check_size(V, vocab_size)

    learned = 0
    while len(V) < vocab_size:
        freq, C_bi = Counter(), Counter()
        for chunk, count in C_uni:
            for token in chunk:
                freq[token] += count
            for pair in pairwise(chunk):
                C_bi[pair] += count
        if not C_bi:
            break
        # Mended, line 36: the thesis divides by C_bi.count(pair[0]), a token in a list of pairs;
        # its formula has the frequencies of the two tokens in the corpus.
        # Mended, lines 42-44: the best score belongs to rare characters, so that a minimum above
        # 1 would end training at the first pair; pairs below the minimum are no candidates.
        scores = {
            pair: Fraction(count, freq[pair[0]] * freq[pair[1]])
            for pair, count in C_bi.items()
            if count >= min_frequency
        }
        if not scores:
            if not learned:
                raise _too_rare(min_frequency, C_bi)
            break
        if tie == "first":
            pair_best = max(scores, key=scores.get)
        else:
            pair_best = min(scores, key=lambda pair: (-scores[pair], V[pair[0]], V[pair[1]]))

        # Mended, line 45: strip would take the prefix from both ends, and more than once.
        v = pair_best[0] + pair_best[1].removeprefix(prefix)
        V.setdefault(v, len(V))
        learned += 1
        for chunk, _ in C_uni:
            k = 0
            while k < len(chunk) - 1:
                if (chunk[k], chunk[k + 1]) == pair_best:
                    chunk[k : k + 2] = [v]
                k += 1
        if trace is not None:
            corpus = [(list(chunk), count) for chunk, count in C_uni]
            step = {"counts": dict(C_bi), "scores": scores, "merge": pair_best, "token": v}
            trace.append({**step, "corpus": corpus})
    return V


def tokenize_wordpiece(text, V, *, prefix="##", unk="[UNK]", chunk_max=100, trace=None):
    """Algorithm 4: tokenizes with WordPiece, the longest token of V first, from the left.

    text: one word or an iterable of words. Returns the list of ids. A word with a part that no
    token covers, or of more than `chunk_max` characters, becomes `unk` as a whole.
    trace: dicts with chunk, tried (from long to short) and token (None where none fits).
    Raises ValueError where `unk` is needed and V has none.

    >>> V = {v: i for i, v in enumerate(["[UNK]", "f", "##u", "##s", "##e", "##d", "##ed"])}
    >>> [list(V)[i] for i in tokenize_wordpiece(["fused", "funny"], V)]
    ['f', '##u', '##s', '##ed', '[UNK]']
    """
    ids = []
    for chunk in [text] if isinstance(text, str) else text:
        start, ids_buff = 0, []
        while len(chunk) <= chunk_max and start < len(chunk):
            end, token, tried = len(chunk), None, []
            while start < end:
                token_buff = prefix + chunk[start:end] if start > 0 else chunk[start:end]
                tried.append(token_buff)
                if token_buff in V:
                    token = token_buff
                    break
                end -= 1
            if trace is not None:
                trace.append({"chunk": chunk, "tried": tried, "token": token})
            if token is None:  # the thesis marks this by unk itself, which a word may spell
                break
            ids_buff.append(V[token])
            start = end
        if start < len(chunk):  # a part is left: too long, or not covered
            if unk not in V:
                raise ValueError(f"{chunk!r} needs the unknown token {unk!r}: V must hold it")
            ids_buff = [V[unk]]
        ids += ids_buff
    return ids


def extend_wordpiece(V, V_D, *, trace=None):
    """Algorithm 7: extends a WordPiece vocabulary V by the tokens of a supplement V_D.

    Returns V_N: V, then every token of V_D that V lacks, in V_D's id order, its special tokens
    included. trace: dicts with token, id, and new (False where V had the token).

    >>> extend_wordpiece({"a": 0, "##b": 1}, {"##b": 0, "ab": 1})
    {'a': 0, '##b': 1, 'ab': 2}
    """
    V_N = dict(V)
    i = max(V_N.values(), default=-1) + 1  # len(V_N), unless V's ids have gaps
    for v in sorted(V_D, key=V_D.get):
        if v not in V_N:
            V_N[v] = i
            i += 1
        if trace is not None:
            trace.append({"token": v, "id": V_N[v], "new": v not in V})
    return V_N


# ---- SentencePiece BPE: Algorithms 2, 5, 8 -----------------------------------------------------


def train_sentencepiece_bpe(
    words, vocab_size, *, min_frequency=0, special_tokens=(), byte_tokens=BYTE_TOKENS, trace=None
):
    """Algorithm 2: trains SentencePiece BPE, which counts merged forms instead of pairs.

    words: word -> count, or an iterable of words, with spaces already written as U+2581.
    byte_tokens: for byte fallback, after the special tokens; () leaves them out.
    Returns (V, M). All pairs that build the chosen form become rules. Ties: the shorter form,
    then the smaller code points, as `sentencepiece` does (whose training, when no pair is left,
    goes on with forms of frequency 0; this one ends).
    trace: dicts with counts (form -> count), token, merges, corpus ([tokens, count] after).
    Raises ValueError as `train_bpe` does.

    >>> V, M = train_sentencepiece_bpe({"▁low": 5, "▁slow": 2}, 8, byte_tokens=())
    >>> list(V)
    ['l', 'o', 's', 'w', '▁', 'lo', 'low', '▁low']
    >>> M
    [('l', 'o'), ('lo', 'w'), ('▁', 'low')]
    """
    C = _checked(words, special_tokens)
    V, M = {}, []
    for v in [*special_tokens, *byte_tokens, *sorted(set("".join(C)))]:
        V.setdefault(v, len(V))
    _check_size(V, vocab_size)
    C_uni = [(list(word), count) for word, count in C.items()]

    while len(V) < vocab_size:
        C_bi = Counter()
        for chunk, count in C_uni:
            for left, right in pairwise(chunk):
                C_bi[left + right] += count
        if not C_bi:
            break
        v = min(C_bi, key=lambda form: (-C_bi[form], len(form), form))
        if C_bi[v] < min_frequency:  # mended, line 44: the best frequency, not the last one seen
            if not M:
                raise _too_rare(min_frequency, C_bi)
            break

        V.setdefault(v, len(V))
        merges = []
        for chunk, _ in C_uni:
            k = 0
            while k < len(chunk) - 1:
                if chunk[k] + chunk[k + 1] == v:
                    if (chunk[k], chunk[k + 1]) not in merges:
                        merges.append((chunk[k], chunk[k + 1]))
                    chunk[k : k + 2] = [v]
                k += 1
        # Starting from single characters there is one pair a step, never more: a string between
        # two token boundaries has been cut in the same way wherever it stands.
        M += merges
        if trace is not None:
            corpus = [(list(chunk), count) for chunk, count in C_uni]
            trace.append({"counts": dict(C_bi), "token": v, "merges": merges, "corpus": corpus})
    return V, M


def tokenize_sentencepiece_bpe(text, V, M, *, byte_tokens=BYTE_TOKENS, trace=None):
    """Algorithm 5: tokenizes with SentencePiece BPE: merge rules in order, then byte fallback.

    text: one word or an iterable of words, with spaces already written as U+2581. Returns the
    list of ids; a character that is not in V becomes the tokens of its UTF-8 bytes.
    trace: dicts with rule (None at the start) and tokens (after).
    Raises ValueError for an unknown character where V holds no byte tokens.

    >>> V, M = train_sentencepiece_bpe({"▁low": 5, "▁slow": 2}, 264)
    >>> [list(V)[i] for i in tokenize_sentencepiece_bpe("▁blow", V, M)]
    ['▁', '<0x62>', 'low']
    """
    ids = []
    for word in [text] if isinstance(text, str) else text:
        chunk = list(word)
        if trace is not None:
            trace.append({"rule": None, "tokens": list(chunk)})
        for m in map(tuple, M):
            k, before = 0, len(chunk)
            while k < len(chunk) - 1:
                if (chunk[k], chunk[k + 1]) == m:
                    chunk[k : k + 2] = ["".join(m)]
                k += 1
            if trace is not None and len(chunk) < before:
                trace.append({"rule": m, "tokens": list(chunk)})
        for token in chunk:
            if token in V:
                ids.append(V[token])
                continue
            for byte in token.encode():  # mended, line 31: over the token, not over the chunk
                if byte >= len(byte_tokens) or byte_tokens[byte] not in V:
                    raise ValueError(
                        f"{token!r} is not in the vocabulary, nor is a token for its byte "
                        f"{byte:#04x}: train with byte_tokens=BYTE_TOKENS"
                    )
                ids.append(V[byte_tokens[byte]])
    return ids


def extend_sentencepiece_bpe(V, M, V_D, M_D, *, trace=None):
    """Algorithm 8: extends SentencePiece BPE (V, M) by a supplement (V_D, M_D).

    Returns (V_N, M_N): the supplement's new single characters first, then its new merged tokens
    in rule order, each with a rule for every split whose two halves are tokens by then.
    trace: dicts with token, id and merges (the rules added for it).

    >>> V, M = {"a": 0, "b": 1, "ab": 2}, [("a", "b")]
    >>> V_D, M_D = {"a": 0, "b": 1, "c": 2, "bc": 3, "abc": 4}, [("b", "c"), ("a", "bc")]
    >>> V_N, M_N = extend_sentencepiece_bpe(V, M, V_D, M_D)
    >>> list(V_N)
    ['a', 'b', 'ab', 'c', 'bc', 'abc']
    >>> M_N
    [('a', 'b'), ('b', 'c'), ('a', 'bc'), ('ab', 'c')]
    """
    V_N, M_N = dict(V), [tuple(m) for m in M]
    i = max(V_N.values(), default=-1) + 1  # len(V_N), unless V's ids have gaps
    singles = [v for v in sorted(V_D, key=V_D.get) if len(v) == 1]
    for v in [*singles, *("".join(m) for m in M_D)]:
        if v in V_N:
            continue
        # Mended, line 13: as printed, the supplement's rule m would be appended once for each
        # split; the rule of the split itself is meant.
        splits = [(v[:k], v[k:]) for k in range(1, len(v))]
        merges = [(left, right) for left, right in splits if left in V_N and right in V_N]
        M_N += merges
        V_N[v] = i
        i += 1
        if trace is not None:
            trace.append({"token": v, "id": V_N[v], "merges": merges})
    return V_N, M_N


# ---- byte-level BPE: Algorithms 3, 6, 9 --------------------------------------------------------


def train_byte_level_bpe(words, vocab_size, *, min_frequency=0, special_tokens=(), trace=None):
    """Algorithm 3: trains byte-level BPE: plain BPE over the UTF-8 bytes of the words.

    words: word -> count, or an iterable of words, as plain text. Returns (V, M); their tokens
    are written in byte characters (`BYTE_CHARS`): a space is Ġ. All 256 stand in V, after the
    special tokens, in the order of their code points; the result is the Hugging Face BPE
    trainer's. trace: as for `train_bpe`. Raises ValueError as `train_bpe` does.

    >>> V, M = train_byte_level_bpe({" né": 2, " no": 1}, 259)
    >>> M
    [('Ġ', 'n'), ('Ã', '©'), ('Ġn', 'Ã©')]
    """
    C = _checked(words, special_tokens)
    V, M = {}, []
    # Mended, lines 24-27: the corpus has no characters but these, which have their indices.
    for v in [*special_tokens, *sorted(BYTE_CHARS)]:
        V.setdefault(v, len(V))
    _check_size(V, vocab_size)
    C_uni = [([BYTE_CHARS[byte] for byte in word.encode()], count) for word, count in C.items()]

    while len(V) < vocab_size:
        C_bi = Counter()
        for chunk, count in C_uni:
            for pair in pairwise(chunk):
                C_bi[pair] += count
        if not C_bi:
            break
        pair_best = min(C_bi, key=lambda pair: (-C_bi[pair], V[pair[0]], V[pair[1]]))
        if C_bi[pair_best] < min_frequency:  # mended, line 44: as in Algorithm 2
            if not M:
                raise _too_rare(min_frequency, C_bi)
            break

        v = "".join(pair_best)
        V.setdefault(v, len(V))
        M.append(pair_best)
        for chunk, _ in C_uni:
            k = 0
            while k < len(chunk) - 1:
                if (chunk[k], chunk[k + 1]) == pair_best:
                    chunk[k : k + 2] = [v]
                k += 1
        if trace is not None:
            corpus = [(list(chunk), count) for chunk, count in C_uni]
            trace.append({"counts": dict(C_bi), "merge": pair_best, "token": v, "corpus": corpus})
    return V, M


def tokenize_byte_level_bpe(text, V, M, *, trace=None):
    """Algorithm 6: tokenizes with byte-level BPE: bytes, then the merge rules in order.

    text: one word or an iterable of words, as plain text. Returns the list of ids.
    trace: dicts with rule (None at the start) and tokens (after).
    Raises ValueError for a byte that V has no token for (a vocabulary trained here has all).

    >>> V, M = train_byte_level_bpe({" né": 2, " no": 1}, 259)
    >>> [list(V)[i] for i in tokenize_byte_level_bpe([" né", " nó"], V, M)]
    ['ĠnÃ©', 'Ġn', 'Ã', '³']
    """
    ids = []
    for word in [text] if isinstance(text, str) else text:
        chunk = [BYTE_CHARS[byte] for byte in word.encode()]
        if trace is not None:
            trace.append({"rule": None, "tokens": list(chunk)})
        for m in map(tuple, M):
            k, before = 0, len(chunk)
            while k < len(chunk) - 1:
                if (chunk[k], chunk[k + 1]) == m:
                    chunk[k : k + 2] = ["".join(m)]
                k += 1
            if trace is not None and len(chunk) < before:
                trace.append({"rule": m, "tokens": list(chunk)})
        for token in chunk:
            if token not in V:
                raise ValueError(f"the token {token!r} is not in V: V must hold all 256 bytes")
            ids.append(V[token])
    return ids


def extend_byte_level_bpe(V, M, V_D, M_D, *, trace=None):
    """Algorithm 9: extends byte-level BPE (V, M) by a supplement (V_D, M_D).

    Returns (V_N, M_N): the supplement's new single characters first, then its new merged tokens
    in rule order, each with the rule that the supplement learned for it and no other.
    trace: dicts with token, id and merges (the rule added for it).

    >>> V, M = {"a": 0, "b": 1, "ab": 2}, [("a", "b")]
    >>> V_D, M_D = {"a": 0, "b": 1, "c": 2, "bc": 3, "abc": 4}, [("b", "c"), ("a", "bc")]
    >>> extend_byte_level_bpe(V, M, V_D, M_D)[1]
    [('a', 'b'), ('b', 'c'), ('a', 'bc')]
    """
    V_N, M_N = dict(V), [tuple(m) for m in M]
    i = max(V_N.values(), default=-1) + 1  # len(V_N), unless V's ids have gaps
    for v in sorted(V_D, key=V_D.get):
        if len(v) == 1 and v not in V_N:
            V_N[v] = i
            i += 1
            if trace is not None:
                trace.append({"token": v, "id": V_N[v], "merges": []})
    for m in map(tuple, M_D):
        v = "".join(m)
        if v not in V_N:
            M_N.append(m)
            V_N[v] = i
            i += 1
            if trace is not None:
                trace.append({"token": v, "id": V_N[v], "merges": [m]})
    return V_N, M_N


# ---- Unigram -----------------------------------------------------------------------------------


def unigram_seed(words, *, max_length=16, whole_words=False):
    """Counts the substrings of the words, the tokens that Unigram starts from.

    words: word -> count, or an iterable of words. Returns substring -> count of its occurrences,
    in code-point order: all single characters, and all longer substrings up to `max_length`
    characters that are shorter than their word (as in the lecture), or not, with `whole_words`.

    >>> unigram_seed({"run": 3, "bug": 5})
    {'b': 5, 'bu': 5, 'g': 5, 'n': 3, 'r': 3, 'ru': 3, 'u': 8, 'ug': 5, 'un': 3}
    """
    seed = Counter()
    for word, count in _checked(words).items():
        for start in range(len(word)):
            for end in range(start + 1, min(start + max_length, len(word)) + 1):
                if end - start == 1 or end - start < len(word) or whole_words:
                    seed[word[start:end]] += count
    return dict(sorted(seed.items()))


def tokenize_unigram(word, p, *, unk="<unk>", trace=None):
    """Finds a word's most probable segmentation by the Viterbi algorithm.

    p: token -> probability. Returns (tokens, natural logarithm of their probability). Ties (to
    nine digits): the longer first token, as on the lecture's slide. A character that is no token
    becomes `unk`, at a factor e**-10 below the least probable token, as in `sentencepiece`.
    trace: dicts with start, scores (first token from there -> best score to the end), token.

    >>> tokens, score = tokenize_unigram("run", {"r": 0.02, "u": 0.2, "n": 0.2, "ru": 0.02})
    >>> tokens, round(math.exp(score), 6)
    (['ru', 'n'], 0.004)
    """
    best = [0.0] * (len(word) + 1)  # best[k]: the score of the best segmentation of word[k:]
    ends = [0] * len(word)  # ends[k]: where the first token of that segmentation ends
    for start in reversed(range(len(word))):
        scores = {}
        for end in range(len(word), start, -1):
            if p.get(word[start:end], 0) > 0:
                scores[end] = math.log(p[word[start:end]]) + best[end]
        if start + 1 not in scores:
            least = min(probability for probability in p.values() if probability > 0)
            scores[start + 1] = math.log(least) - 10 + best[start + 1]
        ends[start] = max(scores, key=lambda end: round(scores[end], 9))  # the longest of equals
        best[start] = scores[ends[start]]
        if trace is not None:
            table = {word[start:end]: score for end, score in scores.items()}
            trace.append({"start": start, "scores": table, "token": word[start : ends[start]]})
    tokens, start = [], 0
    while start < len(word):
        token = word[start : ends[start]]
        tokens.append(token if p.get(token, 0) > 0 else unk)
        start = ends[start]
    return tokens, best[0]


def unigram_expected_counts(words, p):
    """Counts how often each token is expected, over all segmentations (the E-step of EM).

    A segmentation weighs as its probability does; forward and backward sums take the place of a
    list of all. words: word -> count, or an iterable; p: token -> probability, every character
    among them. Returns (token -> expected count, log-likelihood of the corpus, natural). Raises
    ValueError for a word that no tokens spell. Source: Kudo, Subword Regularization, 2018, section 3.2.

    >>> counts, _ = unigram_expected_counts({"ab": 3}, {"a": 0.5, "b": 0.4, "ab": 0.1})
    >>> {token: round(count, 9) for token, count in counts.items()}
    {'a': 2.0, 'b': 2.0, 'ab': 1.0}
    """

    def log_sum(terms):
        top = max(terms, default=-math.inf)
        if top == -math.inf:  # no token ends, or begins, at this place
            return top
        return top + math.log(sum(math.exp(term - top) for term in terms))

    c, likelihood = dict.fromkeys(p, 0.0), 0.0
    for word, count in sorted(_checked(words).items()):
        n = len(word)
        score = {}  # of each token that fits, by its span
        for start in range(n):
            for end in range(start + 1, n + 1):
                if p.get(word[start:end], 0) > 0:
                    score[start, end] = math.log(p[word[start:end]])
        forward, backward = [0.0] * (n + 1), [0.0] * (n + 1)  # logs: up to here, from here on
        for k in range(1, n + 1):
            forward[k] = log_sum([forward[j] + score[j, k] for j in range(k) if (j, k) in score])
        for k in reversed(range(n)):
            ends = [j for j in range(k + 1, n + 1) if (k, j) in score]
            backward[k] = log_sum([score[k, j] + backward[j] for j in ends])
        if forward[n] == -math.inf:
            raise ValueError(f"no tokens of p spell the word {word!r}: give every character to p")
        for (start, end), log_p in score.items():
            share = math.exp(forward[start] + log_p + backward[end] - forward[n])
            c[word[start:end]] += count * share
        likelihood += count * forward[n]
    return c, likelihood


def train_unigram(
    words,
    vocab_size,
    *,
    seed=None,
    e_step="expected",
    n_em=2,
    drop=0.1,
    log=math.log,
    digits=None,
    trace=None,
):
    """Trains Unigram: EM for the probabilities, then the tokens that are missed least go.

    words: word -> count, or an iterable of words. seed: token -> count, by default
    `unigram_seed(words)`. Returns token -> probability, the most probable first (ties, to ten
    digits: code points), `vocab_size` of them, fewer if the seed has fewer. The corpus'
    characters stay.
    e_step: "expected" counts over all segmentations (Kudo, 2018), "viterbi" over the best one,
    "substrings" takes the seed's counts, as the lecture does. n_em: EM rounds between prunings.
    Each gives a character a count of at least 1.
    drop: the share of the longer tokens that goes each time, at least one token; 0: one by one.
    The loss of a token is that of the corpus, by best segmentations, without it. Ties (to nine
    digits): the last in code-point order goes first.
    trace: dicts with p, segmentation (word -> (tokens, log p)), loss, losses (token -> loss
    without it), removed; the last has no losses. The slides have log=math.log10 and
    probabilities rounded to 4 digits, digits=4. Raises ValueError for an empty corpus, a
    vocab_size below the alphabet, a seed without it. Source: the lecture, section Unigram
    Tokenization.

    >>> words, trace = {"run": 3, "bug": 5, "fun": 13, "sun": 10}, []
    >>> slides = {"e_step": "substrings", "drop": 0, "log": math.log10, "digits": 4}
    >>> p = train_unigram(words, 11, **slides, trace=trace)
    >>> [(round(step["loss"], 3), step["removed"]) for step in trace]
    [(66.102, ['un']), (61.155, ['ug']), (60.106, [])]
    """
    if e_step not in ("expected", "viterbi", "substrings"):
        raise ValueError(f"e_step={e_step!r}: give 'expected', 'viterbi' or 'substrings'")
    if n_em < 1 or not 0 <= drop < 1:
        raise ValueError(f"n_em={n_em}, drop={drop}: give n_em from 1 on, drop from 0 to below 1")
    C = dict(sorted(_checked(words).items()))
    seed = unigram_seed(C) if seed is None else dict(sorted(seed.items()))
    alphabet = set("".join(C))
    if not alphabet <= seed.keys():
        lacking = sorted(alphabet - seed.keys())
        raise ValueError(f"the seed lacks {lacking}: it must hold every character of the corpus")
    _check_size(alphabet, vocab_size)
    p = {x: count / sum(seed.values()) for x, count in seed.items()}

    while True:
        for _ in range(n_em):
            if e_step == "substrings":
                c = {x: seed[x] for x in p}
            elif e_step == "viterbi":
                c = dict.fromkeys(p, 0)
                for word, count in C.items():
                    for x in tokenize_unigram(word, p)[0]:
                        c[x] += count
            else:
                c, _ = unigram_expected_counts(C, p)
            for x in alphabet:
                c[x] = max(c[x], 1)  # a character that no word needs alone must stay possible
            total = math.fsum(c.values())
            p = {x: count / total for x, count in c.items()}
            if digits is not None:
                p = {x: round(probability, digits) for x, probability in p.items()}

        best = {word: tokenize_unigram(word, p) for word in C}
        unit = log(math.e)
        loss = -unit * math.fsum(count * best[word][1] for word, count in C.items())
        step = {"p": p, "segmentation": best, "loss": loss, "losses": {}, "removed": []}
        if trace is not None:
            trace.append(step)
        if len(p) <= vocab_size or p.keys() == alphabet:
            return dict(sorted(p.items(), key=lambda item: (-float(f"{item[1]:.9e}"), item[0])))

        increase = {}
        for x in [x for x in p if x not in alphabet]:
            rest = {token: p[token] for token in p if token != x}
            using = [word for word in C if x in best[word][0]]  # the others stay as they are
            lost = [C[w] * (best[w][1] - tokenize_unigram(w, rest)[1]) for w in using]
            increase[x] = unit * math.fsum(lost)
        order = sorted(sorted(increase, reverse=True), key=lambda x: round(increase[x], 9))
        n_drop = min(max(1, int(drop * len(order))), len(p) - vocab_size)
        step["losses"] = {x: loss + increase[x] for x in increase}
        step["removed"] = order[:n_drop]
        p = {x: p[x] for x in p if x not in step["removed"]}


# ---- AdaptBPE: Algorithm 1 ---------------------------------------------------------------------


def tokenize_adapt_bpe(text, V, M, added, *, trace=None):
    """AdaptBPE, Algorithm 1: the longest matches of the added tokens first, then BPE.

    text: one word (pre-token, line 1) or an iterable of words, written as V's tokens are (byte
    characters for byte-level BPE). added: tokens, all in V. Returns the list of tokens. Of equally
    long matches the leftmost is taken. Where a rule ranks above one that makes its parts, BPE
    encoders that replace one pair at a time can differ; training gives no such rules.
    trace: dicts with match and tokens (a list of what stands so far) for each match, then with
    rule and tokens (after). Raises ValueError for a token that V lacks, among added or in the
    result. Source: Balde et al., 2024, Algorithm 1.

    >>> V, M = train_bpe({"hyper": 5, "cholera": 3}, 16)
    >>> V |= {"ester": 16, "chol": 17}
    >>> tokenize_adapt_bpe("hyperchol", V, M, ["chol"])
    ['hyper', 'chol']
    """
    if isinstance(added, str):
        raise TypeError(f"added is one string, {added[:20]!r}: give a list of tokens")
    ranks = {tuple(m): rank for rank, m in enumerate(M)}
    tokens = []
    for word in [text] if isinstance(text, str) else text:
        # Mended, lines 15-17: the printed mark of what is taken, "-", occurs in words and tokens.
        split, remaining = {}, list(word)
        while True:
            idx_match, longest_match = -1, ""
            for i in range(len(word)):
                for v in added:
                    if len(v) > len(longest_match) and remaining[i : i + len(v)] == list(v):
                        idx_match, longest_match = i, v
            if idx_match == -1:
                break
            split[idx_match] = longest_match
            for i in range(idx_match, idx_match + len(longest_match)):
                remaining[i] = None
            if trace is not None:
                rest = {i: char for i, char in enumerate(remaining) if char is not None}
                now = [sw for _, sw in sorted((split | rest).items())]
                trace.append({"match": longest_match, "tokens": now})

        # Mended, line 21: as printed only the matches are kept; its comment names the rest too.
        split |= {i: char for i, char in enumerate(remaining) if char is not None}
        subwords = [sw for _, sw in sorted(split.items())]
        # Mended, lines 22 and 45: a word of one subword has no pairs, and is done at once.
        while pairs := [pair for pair in pairwise(subwords) if pair in ranks]:
            bigram, new_word, i = min(pairs, key=ranks.get), [], 0
            while i < len(subwords):  # mended, line 32: index fails behind the last `first`
                if tuple(subwords[i : i + 2]) == bigram:
                    new_word.append("".join(bigram))
                    i += 2
                else:
                    new_word.append(subwords[i])
                    i += 1
            subwords = new_word
            if trace is not None:
                trace.append({"rule": bigram, "tokens": list(subwords)})
        tokens += subwords  # line 50, once a word: its indentation leaves this open
    for token in [*added, *tokens]:
        if token not in V:
            raise ValueError(
                f"the token {token!r} is not in V: V must hold all characters and added"
            )
    return tokens


# ---- pruning: the paper's Algorithms 1 and 2 ---------------------------------------------------


def prune_leaves(V, M, counts, *, unreachable=(), trace=None):
    """Frequency leaf pruning, the paper's Algorithm 1: which token goes first, and which then.

    V: token -> id. M: one merge for each token that has one, the last that leads to it. counts:
    token -> how often it occurs in a text (0 where it is missing). unreachable: tokens of V that no
    merge leads to; they are leaves. The other tokens without a merge are atomic and never go.
    Returns the list of tokens in the order of pruning. Ties go to the larger id. trace: dicts with
    token, count, and parts (what its count flowed to). Source: Purason et al., 2025, Algorithm 1.

    >>> V = {token: i for i, token in enumerate(["a", "b", "c", "ab", "abc"])}
    >>> prune_leaves(V, [("a", "b"), ("ab", "c")], {"ab": 1, "abc": 2})
    ['abc', 'ab']
    """
    token_splits = {"".join(m): tuple(m) for m in M}
    atomics = V.keys() - token_splits.keys() - set(unreachable)
    downstream = Counter(part for m in token_splits.values() for part in set(m))
    counts, prune_order = Counter(counts), []
    queue = {v: counts[v] for v in V if v not in atomics and not downstream[v]}
    while queue:
        token = min(queue, key=lambda v: (queue[v], -V[v]))
        count = queue.pop(token)
        prune_order.append(token)
        parts = token_splits.get(token, ())
        # Mended: the printed line updates the parts "in queue", where they are not yet.
        for part in parts:
            counts[part] += count
        for part in sorted(set(parts)):
            downstream[part] -= 1
            if downstream[part] == 0 and part not in atomics:
                queue[part] = counts[part]
        if trace is not None:
            trace.append({"token": token, "count": count, "parts": list(parts)})
    return prune_order


def prune_by_merges(V, token_counts, merge_counts, *, atomics=()):
    """Merge-based pruning, the paper's Algorithm 2: tokens by how often they take part.

    V: token -> id. token_counts: token -> how often it occurs in a text as it is tokenized;
    merge_counts: merge -> how often it was made on the way. atomics never go. Returns the list of
    tokens in the order of pruning: by count, then the longer (in characters of V's form), then the
    larger id. Source: Purason et al., 2025, Appendix D.

    >>> V = {token: i for i, token in enumerate(["a", "b", "c", "ab", "abc"])}
    >>> prune_by_merges(V, {"ab": 1, "abc": 1}, {("a", "b"): 2, ("ab", "c"): 1}, atomics="abc")
    ['abc', 'ab']
    """
    counts = Counter(token_counts)
    for (left, right), n in merge_counts.items():
        counts[left] += n
        counts[right] += n
    free = [v for v in V if v not in set(atomics)]
    return sorted(free, key=lambda v: (counts[v], -len(v), -V[v]))
