"""One contract, every combination: each operation and chains of them, on every family.

Tokenizers of at most some thousand tokens are tried in the fast tier: three trained here, and a real
one with most of its tokens pruned. Others, and the whole real ones, take minutes: they are long.
"""

from functools import lru_cache
from itertools import groupby, permutations
from operator import itemgetter
from pathlib import Path

import pytest
from contract import keep, known
from strategies import LIKE_REAL, MARKED, loaded
from tokenizers import Tokenizer, models, processors
from transformers import BertTokenizer, GPT2Tokenizer

import tokhelpers as th
from tokhelpers.adapt.pruning import prunable
from tokhelpers.tokenizer.spec import TokenizerSpec


@lru_cache
def text() -> tuple[str, ...]:
    """Medical English and two other scripts: something new for every family."""
    return (
        *th.load_corpus("hpo", chars=60_000),
        *th.load_corpus("wordfreq:el", chars=40_000),
        *th.load_corpus("wordfreq:ko", chars=20_000),
    )


# --- the families ---------------------------------------------------------------------------------
def scratch(kind: str) -> Tokenizer:
    """A tokenizer that the function of this name trains."""
    special = ["<s>", "</s>", "<pad>"] if kind != "wordpiece" else ["[CLS]", "[SEP]", "[PAD]"]
    english = th.load_corpus("wordfreq:en", chars=60_000)
    options = {"vocab_size": 1_200, "special_tokens": special}
    options |= {"min_frequency": 0} if kind == "wordpiece" else {}  # so that it does not warn
    made = getattr(th, f"train_{kind}")(english, **options)
    begin, end, pad = special
    ids = [(token, made.token_to_id(token)) for token in (begin, end)]
    made.post_processor = processors.TemplateProcessing(f"{begin} $A {end}", None, ids)
    made.enable_padding(pad_token=pad, pad_id=made.token_to_id(pad))
    return made


def small(name: str) -> Tokenizer:
    """A real tokenizer, settings and special tokens included, with 2,000 of its learned tokens."""
    order = th.pruning_order(loaded(name), by="id")
    return th.prune(loaded(name), order, len(order) - 2_000)


@lru_cache
def family(name: str, folder: Path | None = None) -> tuple[Tokenizer, str]:
    """A tokenizer, and what is written of it before any test has had it."""
    made = read_or_trained(name, folder)
    return made, made.to_str()


def read_or_trained(name: str, folder: Path | None) -> Tokenizer:
    if folder is None:
        kind, _, rest = name.partition("-")
        made = {"scratch": scratch, "small": small, "like": lambda real: LIKE_REAL[real]()}
        return made[kind](rest) if kind in made else loaded(name)
    here = folder / "tokenizers" / name
    if name == "gpt2":
        return GPT2Tokenizer.from_pretrained(here).backend_tokenizer
    if (here / "vocab.txt").exists():
        options = {"do_lower_case": name.endswith("uncased")}
        if name.endswith("uncased"):  # its file has them in lower case
            options |= {f"{end}_token": f"[{end}]" for end in ("pad", "unk", "cls", "sep", "mask")}
        return BertTokenizer.from_pretrained(here, **options).backend_tokenizer
    return th.load_tokenizer(
        here if (here / "tokenizer.json").exists() else here / "tokenizer.model"
    )


SMALL = ["small-mistral-v1", "small-llama-3", "small-qwen", "small-mistral-nemo"]
SCRATCH = ["scratch-byte_level_bpe", "scratch-sentencepiece_bpe", "scratch-wordpiece"]
LIKE = [f"like-{name}" for name in LIKE_REAL]  # real ones, and what is switched on in some
REAL = ["llama-3", "mistral-v1"]
ELSEWHERE = [
    "bert-base-cased", "bert-base-chinese", "bert-base-multilingual-cased", "bert-base-uncased",
    "gpt2", "llama-2", "phi-3-mini", "roberta-base", "smollm2",
]  # fmt: skip


@pytest.fixture
def base(request):
    """A tokenizer; whatever a test makes of it leaves it as it was."""
    name = request.param
    folder = request.getfixturevalue("shared_data") if name in ELSEWHERE else None
    made, before = family(name, folder)
    yield made
    assert made.to_str() == before


LARGE = {*REAL, *ELSEWHERE, *SMALL[1:]}
FAMILIES = [*SMALL, *SCRATCH, *LIKE, *REAL, *ELSEWHERE]
every_family = pytest.mark.parametrize(
    "base",
    [pytest.param(n, marks=pytest.mark.long) if n in LARGE else n for n in FAMILIES],
    indirect=True,
)


# --- the operations -------------------------------------------------------------------------------
def is_wordpiece(tokenizer) -> bool:
    return isinstance(tokenizer.model, models.WordPiece)


def is_byte_level(tokenizer) -> bool:
    return "ByteLevel" in str(tokenizer.pre_tokenizer)


@lru_cache(maxsize=4)
def supplement(base) -> Tokenizer:
    """A small tokenizer of the same family, trained on the other text."""
    if is_wordpiece(base):
        return th.train_wordpiece(
            text(), vocab_size=2_500, min_frequency=0, normalizer=base.normalizer
        )
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
    return th.extend(base, extension, how=how)


def pruned(base, by, n=200, **options):
    if is_wordpiece(base):  # it has no graph of merges; any order will do
        spec = TokenizerSpec.from_tokenizer(base, wordpiece=True)
        order = sorted(prunable(spec), key=spec.vocab.get, reverse=by != "id")
        return th.prune(base, order, n, **options)
    needs = by in ("frequency", "leaf-frequency", "merges")
    order = th.pruning_order(base, text() if needs else None, by=by)
    return th.prune(base, order, n, **options)


OF_MERGES = {
    "extend, regenerate": lambda base: extended(base, "regenerate"),
    "extend, prepend": lambda base: extended(base, "prepend"),
    "extend, add_tokens": lambda base: extended(base, "add_tokens"),
    "prune by leaf-frequency": lambda base: pruned(base, "leaf-frequency"),
    "prune by frequency": lambda base: pruned(base, "frequency"),
    "prune by merges": lambda base: pruned(base, "merges"),
    "merge skipping": lambda base: th.with_merge_skipping(base, True),
    "no merge skipping": lambda base: th.with_merge_skipping(base, False),
}
OF_ALL = {
    "extend, append": lambda base: extended(base, "append"),
    "naive": lambda base: th.extend(base, th.naive_extension(base, supplement(base), 100)),
    "thesis": lambda base: th.extend(
        base, th.naive_extension(base, supplement(base), 100, method="thesis")
    ),
    "prune by leaf-id": lambda base: pruned(base, "leaf-id"),
    "prune by id": lambda base: pruned(base, "id"),
    "prune, keep IDs": lambda base: pruned(base, "leaf-id", keep_ids=True),
}
OF_BYTES = {"tiktoken": th.tiktoken_merges}
OPERATIONS = OF_ALL | OF_MERGES | OF_BYTES


# --- each alone -----------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore")  # of tokens that are always split, of thresholds
@pytest.mark.parametrize("operation", OPERATIONS)
@every_family
def test_each_operation_keeps_the_contract(base, operation):
    if operation in OF_MERGES and is_wordpiece(base):
        pytest.skip("WordPiece has no merges")
    if operation in OF_BYTES and not is_byte_level(base):
        pytest.skip("it is not byte-level")
    new = OPERATIONS[operation](base)
    assert known(new)[0] != known(base)[0] or operation in ("merge skipping", "no merge skipping")
    # behind an added token the library puts SentencePiece's space again, and keeps it
    lossless = operation != "extend, add_tokens" or is_byte_level(base)
    keep(base, new, same_ids=not operation.startswith("prune"), round_trip=lossless)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mark", MARKED)
def test_each_operation_refuses_marks_of_words_by_name(mark, operation):
    base = MARKED[mark]()
    before = base.to_str()
    with pytest.raises(
        ValueError, match=f"this BPE tokenizer writes {mark}=.*, which is not supported"
    ):
        OPERATIONS[operation](base)
    assert base.to_str() == before


@pytest.mark.parametrize("kind", ["byte_level_bpe", "sentencepiece_bpe", "wordpiece", "unigram"])
def test_trainers_keep_the_contract(kind):
    made, _ = family(f"scratch-{kind}")
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
# Whole real ones, in which a step takes seconds, have A_FEW between those of one kind: what comes of
# an order of steps does not hang on the size, and small ones of each kind go all ways.
KINDS = [
    ["gpt2", "roberta-base", "smollm2", "llama-3"],
    ["mistral-v1", "llama-2", "phi-3-mini"],
    [name for name in ELSEWHERE if name.startswith("bert")],
]
SHARES = {name: A_FEW[i :: len(kind)] for kind in KINDS for i, name in enumerate(kind)}
SHARES |= dict.fromkeys([*SMALL[2:], *LIKE], A_FEW)


def walk(now, chains) -> None:
    """Go along the chains, which are sorted: what several begin with is done once."""
    for step, found in groupby(chains, key=itemgetter(0)):
        new = STEPS[step](now)
        keep(now, new, same_ids="prune" not in step)
        walk(new, [rest for _, *rest in found if rest])


@pytest.mark.first
@pytest.mark.filterwarnings("ignore")
@every_family
def test_chains_of_three_keep_the_contract(base, request):
    chains = SHARES.get(request.node.callspec.params["base"], CHAINS)
    if is_wordpiece(base):
        chains = [chain for chain in chains if "regenerate" not in chain]
    walk(base, sorted(chains))
