"""Published questions with four options: MedMCQA, MedQA and MMLU from the hub, or a local file."""

import warnings
from collections.abc import Iterable

import pandas as pd
from questions import LETTERS, Question

from tokhelpers.text.tables import hub_rows


def load_questions(name: str, split: str | None = None, *, faulty: str = "raise") -> list[Question]:
    """Load published questions: from the hub, through the optional package datasets, or a file.

    | name | data set | split, when None |
    |---|---|---|
    | `medmcqa` | openlifescienceai/medmcqa, with explanations | validation |
    | `medqa` | GBaker/MedQA-USMLE-4-options | test |
    | `mmlu:SUBJECT` | cais/mmlu, a subject as `clinical_knowledge` | test |
    | `csv:PATH` | columns question, A, B, C, D, answer (a letter), and subject if there is one | - |

    The hub's data sets are read at fixed commits. These splits are the ones the thesis evaluates on
    (section 6.1): MedMCQA's test has no labels. 78 of MMLU's questions are in both
    clinical_knowledge and college_medicine. A row that makes no ``Question`` is an error; with
    ``faulty="skip"`` it is left out, and a warning says how many were.

    Raises ValueError for a bad argument, for a faulty row and when no question is left,
    ImportError without datasets, OSError when the hub cannot be read, FileNotFoundError when
    nothing is at PATH.

    >>> load_questions("csv:exam.csv", "test")
    Traceback (most recent call last):
    ValueError: csv:exam.csv is one file without splits: leave split out, not 'test'
    """
    if faulty not in ("raise", "skip"):
        raise ValueError(f"faulty must be 'raise' or 'skip', not {faulty!r}")
    kind, _, detail = name.partition(":")
    if kind == "csv" and detail:
        if split is not None:
            raise ValueError(f"{name} is one file without splits: leave split out, not {split!r}")
        rows = pd.read_csv(detail, dtype=str, keep_default_na=False).to_dict("records")
        return _converted(name, rows, _lettered, faulty)
    if kind not in HUB or bool(detail) != (kind == "mmlu"):
        raise ValueError(
            f"no questions are called {name!r}: give medmcqa, medqa, mmlu:SUBJECT or csv:PATH"
        )
    dataset, commit, usual, convert = HUB[kind]
    rows = hub_rows(f"{dataset}@{detail}@{commit}#{split or usual}")
    return _converted(name, rows, convert, faulty)


def _converted(name: str, rows: Iterable[dict], convert, faulty: str) -> list[Question]:
    questions, reasons = [], []
    for number, row in enumerate(rows, 1):
        try:
            questions.append(convert(row))
        except KeyError as error:
            raise ValueError(f"{name} has no column {error}; it has {', '.join(row)}") from None
        except ValueError as error:
            reasons.append(f"{name}, row {number}: {error}")
            if faulty == "raise":
                raise ValueError(f"{reasons[0]}; faulty='skip' leaves such rows out") from None
    if not questions:
        raise ValueError(f"{name} has no question; {reasons[0] if reasons else 'it has no rows'}")
    if reasons:
        message = f"{len(reasons)} of {len(reasons) + len(questions)} rows left out; {reasons[0]}"
        warnings.warn(message, stacklevel=3)
    return questions


def _from_medmcqa(row: dict) -> Question:
    options = tuple(row[f"op{letter}"] for letter in "abcd")
    about = row["subject_name"] or "", row["exp"] or ""
    return Question(row["question"], options, row["cop"], *about)


def _from_medqa(row: dict) -> Question:
    return _lettered({**row["options"], **row, "answer": row["answer_idx"]}, "MedQA")


def _from_mmlu(row: dict) -> Question:
    return Question(row["question"], tuple(row["choices"]), row["answer"], row["subject"])


def _lettered(row: dict, subject: str = "") -> Question:
    """A question whose options are columns A to D, and whose answer is a letter."""
    letter = row["answer"]  # what is no letter of an option stays, for `Question` to refuse
    place = LETTERS.index(letter) if letter in tuple(LETTERS) else letter
    options = tuple(row[letter] for letter in LETTERS)
    return Question(row["question"], options, place, row.get("subject", subject))


# Columns, and that MedMCQA's labels count from 0 (-1: none), are those of the data sets' cards.
# The commits are fixed, so that what is read tomorrow is what was read today.
HUB = {
    "medmcqa": (
        "openlifescienceai/medmcqa",
        "91c6572c454088bf71b679ad90aa8dffcd0d5868",
        "validation",
        _from_medmcqa,
    ),
    "medqa": (
        "GBaker/MedQA-USMLE-4-options",
        "0fb93dd23a7339b6dcd27e241cb9b5eca62d4d18",
        "test",
        _from_medqa,
    ),
    "mmlu": ("cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe", "test", _from_mmlu),
}
