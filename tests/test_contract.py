"""One contract, every combination: each operation and chains of them, on every family.

Tokenizers of at most some thousand tokens are tried in the fast tier: three trained here, and a real
one with most of its tokens pruned. Others, and the whole real ones, take minutes: they are long.
"""

import json
import warnings
from functools import lru_cache
from itertools import groupby, permutations
from operator import itemgetter
from pathlib import Path

import pytest
from contract import keep
from strategies import loaded
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import tokhelpers as th
from tokhelpers.adapt.pruning import prunable
from tokhelpers.tokenizer.parts import read_parts
from tokhelpers.tokenizer.sentencepiece_files import from_spm

ORDERS = ["leaf-frequency", "leaf-id", "frequency", "id", "merges"]
WAYS = ["append", "regenerate", "prepend", "scaffold", "add_tokens"]


@lru_cache
def text() -> tuple[str, ...]:
    """Medical English and two other scripts: something new for every family."""
    return (
        *th.load_corpus("hpo", chars=60_000),
        *th.load_corpus("wordfreq:el", chars=40_000),
        *th.load_corpus("wordfreq:ko", chars=20_000),
    )


@lru_cache
def scratch_text() -> tuple[str, ...]:
    return tuple(th.load_corpus("wordfreq:en", chars=60_000))


# --- the families ---------------------------------------------------------------------------------
def scratch(kind: str) -> Tokenizer:
    special = {"special_tokens": ["<s>", "</s>", "<pad>"]}
    if kind == "wordpiece":
        special = {"special_tokens": ["[CLS]", "[SEP]", "[PAD]"]}
    train = {
        "byte-level": th.train_byte_level_bpe,
        "sentencepiece": th.train_sentencepiece_bpe,
        "wordpiece": th.train_wordpiece,
        "unigram": th.train_unigram,
    }[kind]
    made = train(scratch_text(), vocab_size=1_200, **special)
    begin, end, pad = special["special_tokens"]
    ids = [(token, made.token_to_id(token)) for token in (begin, end)]
    made.post_processor = processors.TemplateProcessing(f"{begin} $A {end}", None, ids)
    made.enable_padding(pad_token=pad, pad_id=made.token_to_id(pad))
    return made


def small(name: str) -> Tokenizer:
    """A real tokenizer, settings and special tokens included, with 2,000 of its learned tokens."""
    base = loaded(name)
    parts = read_parts(base)
    order = sorted(prunable(parts), key=parts.vocab.get, reverse=True)
    return th.prune(base, order, len(order) - 2_000)


@lru_cache
def family(name: str, folder: Path | None = None) -> Tokenizer:
    if folder is None:
        kind, _, rest = name.partition("-")
        made = {"scratch": scratch, "small": small}
        return made[kind](rest) if kind in made else loaded(name)
    here = folder / "tokenizers" / name
    if (here / "tokenizer.json").exists():
        return Tokenizer.from_file(str(here / "tokenizer.json"))
    if (here / "tokenizer.model").exists():
        return from_spm((here / "tokenizer.model").read_bytes())
    if (here / "merges.txt").exists():
        made = Tokenizer(models.BPE.from_file(str(here / "vocab.json"), str(here / "merges.txt")))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        return made
    names = (here / "vocab.txt").read_text("utf-8").split("\n")
    pad, unk, cls, sep = (  # one of the files has them in lower case
        next(name for name in names if name.upper() == special)
        for special in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    )
    made = Tokenizer(models.WordPiece.from_file(str(here / "vocab.txt"), unk_token=unk))
    made.add_special_tokens([pad, unk, cls, sep])
    made.normalizer = normalizers.BertNormalizer(lowercase="uncased" in name)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    ends = [(token, made.token_to_id(token)) for token in (sep, cls)]
    made.post_processor = processors.BertProcessing(*ends)
    return made


SMALL = ["small-llama-3", "small-mistral-v1"]
SCRATCH = ["scratch-byte-level", "scratch-sentencepiece", "scratch-wordpiece"]
REAL = ["llama-3", "qwen", "mistral-nemo", "mistral-v1"]
ELSEWHERE = [
    "bert-base-cased", "bert-base-chinese", "bert-base-multilingual-cased", "bert-base-uncased",
    "gpt2", "llama-2", "phi-3-mini", "roberta-base", "smollm2",
]  # fmt: skip


@pytest.fixture
def base(request):
    name = request.param
    return family(name, request.getfixturevalue("shared_data") if name in ELSEWHERE else None)


def families(*names):
    """A test's parameter: the families of these names, of which the large ones are long."""
    large = {*REAL, *ELSEWHERE, SMALL[0]}
    marked = [pytest.param(n, marks=pytest.mark.long) if n in large else n for n in names]
    return pytest.mark.parametrize("base", marked, indirect=True)


every_family = families(*SMALL, *SCRATCH, *REAL, *ELSEWHERE)


# --- the operations -------------------------------------------------------------------------------
def is_wordpiece(tokenizer) -> bool:
    return json.loads(tokenizer.to_str())["model"]["type"] == "WordPiece"


def is_byte_level(tokenizer) -> bool:
    return "ByteLevel" in str(tokenizer.pre_tokenizer)


@lru_cache(maxsize=4)
def supplement(base) -> Tokenizer:
    """A small tokenizer of the same family, trained on the other text."""
    if is_wordpiece(base):
        return th.train_wordpiece(text(), vocab_size=2_500, normalizer=base.normalizer)
    if is_byte_level(base):
        options = {"pre_tokenizer": base.pre_tokenizer, "normalizer": base.normalizer}
        return th.train_byte_level_bpe(text(), vocab_size=1_500, **options)
    return th.train_sentencepiece_bpe(text(), vocab_size=2_500)


@lru_cache(maxsize=8)
def continued(base, n=150):
    if is_wordpiece(base):
        return th.naive_extension(base, supplement(base), n)
    return th.continue_bpe(base, text(), n)


def extended(base, how, n=150):
    extension = continued(base, n)
    if how != "append":
        extension = th.Extension(tokens=extension.tokens)
    with warnings.catch_warnings(action="ignore"):  # tokens that are always split, where there are
        return th.extend(base, extension, how=how)


def pruned(base, by, n=200):
    if is_wordpiece(base):  # it has no graph of merges; any order will do
        parts = read_parts(base, wordpiece=True)
        order = sorted(prunable(parts), key=parts.vocab.get, reverse=by != "id")
        return th.prune(base, order, n)
    needs = by in ("frequency", "leaf-frequency", "merges")
    return th.prune(base, th.pruning_order(base, text() if needs else None, by=by), n)


# --- each alone -----------------------------------------------------------------------------------
@pytest.mark.parametrize("how", WAYS)
@every_family
def test_extensions_keep_the_contract(base, how):
    if is_wordpiece(base) and how != "append":
        pytest.skip("WordPiece has no merges: it takes append alone")
    before = base.to_str()
    # behind an added token the library puts SentencePiece's space again, and keeps it
    lossless = how != "add_tokens" or is_byte_level(base)
    keep(base, extended(base, how), same_ids=True, round_trip=lossless)
    assert base.to_str() == before


@pytest.mark.parametrize("kind", [th.naive_extension, th.thesis_extension])
@every_family
def test_extensions_by_a_supplement_keep_the_contract(base, kind):
    before = base.to_str()
    with warnings.catch_warnings(action="ignore"):
        new = th.extend(base, kind(base, supplement(base), 100))
    keep(base, new, same_ids=True)
    assert base.to_str() == before


@pytest.mark.parametrize("kind", ["avocado", "medvoc"])
@every_family
def test_extensions_by_a_selection_keep_the_contract(base, kind):
    if is_wordpiece(base):
        pytest.skip("AVocaDo and MEDVOC are selections of merges: WordPiece has none")
    before = base.to_str()
    with warnings.catch_warnings(action="ignore"):  # of a threshold that 100 tokens do not reach
        if kind == "avocado":
            extension, _ = th.adapt.avocado(base, text(), max_tokens=100)
        else:
            extension, _ = th.adapt.medvoc(base, text(), text()[:50], sizes=[80], target_sizes=[20])
        new = th.extend(base, extension)
    assert extension.tokens
    keep(base, new, same_ids=True)
    assert base.to_str() == before


@pytest.mark.parametrize("by", ORDERS)
@every_family
def test_prunings_keep_the_contract(base, by):
    if is_wordpiece(base) and by not in ("id", "leaf-id"):
        pytest.skip("WordPiece has no graph of merges: any order prunes it, two are tried")
    before = base.to_str()
    keep(base, pruned(base, by), same_ids=False)
    assert base.to_str() == before


@pytest.mark.parametrize("enabled", [True, False])
@families(*SMALL, *SCRATCH[:2], *REAL)
def test_merge_skipping_keeps_the_contract(base, enabled):
    before = base.to_str()
    keep(base, th.with_merge_skipping(base, enabled), same_ids=True)
    assert base.to_str() == before


@families(SMALL[0], SCRATCH[0], *REAL[:3], "gpt2")
def test_the_merges_of_tiktoken_keep_the_contract(base):
    before = base.to_str()
    keep(base, th.tiktoken_merges(base), same_ids=True)
    assert base.to_str() == before


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece", "wordpiece", "unigram"])
def test_trainers_keep_the_contract(kind):
    made = family(f"scratch-{kind}")
    keep(made, made, same_ids=True)


# --- chains of three ------------------------------------------------------------------------------
STEPS = {
    "continue": lambda t: extended(t, "append", 60),
    "regenerate": lambda t: extended(t, "regenerate", 60),
    "prune leaves": lambda t: pruned(t, "leaf-frequency", 80),
    "prune merges": lambda t: pruned(t, "merges", 80),
    "prune ids": lambda t: pruned(t, "leaf-id", 80),
}
CHAINS = list(permutations(STEPS, 3))
A_FEW = [  # in which each step stands behind each other one
    tuple(list(STEPS)[(i + further) % len(STEPS)] for further in (0, *places))
    for places in ((1, 3), (3, 2))
    for i in range(len(STEPS))
]


def walk(now, chains) -> None:
    """Go along the chains, which are sorted: what several begin with is done once."""
    for step, found in groupby(chains, key=itemgetter(0)):
        new = STEPS[step](now)
        keep(now, new, same_ids="prune" not in step)
        walk(new, [rest for _, *rest in found if rest])


@every_family
def test_chains_of_three_keep_the_contract(base):
    chains = CHAINS if base.get_vocab_size() < 10_000 else A_FEW
    if is_wordpiece(base):
        chains = [chain for chain in chains if "regenerate" not in chain]
    before = base.to_str()
    walk(base, sorted(chains))
    assert base.to_str() == before
