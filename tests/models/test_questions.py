"""Questions with four options: what each must hold, their layouts, and where they come from."""

import dataclasses
import re
import sys
from types import SimpleNamespace

import pytest
from published_questions import load_questions
from questions import Question, format_question

import tokhelpers as th

BONE = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 2, "anatomy", "Because.")


# the question and its layouts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, "a question needs text, not ' '"),
        ({"question": None}, "a question needs text, not None"),
        ({"options": ("a", "b", "c")}, "'Which is a bone\\?' needs four different options"),
        ({"options": ("a", "b", "c", " b")}, "needs four different options"),
        ({"options": ("a", "b", "c", "")}, "needs four different options, none empty"),
        ({"options": ("a", "b", "c", None)}, "needs four different options"),
        ({"answer": None}, "needs a label, the right option's place .* not None"),
        ({"answer": 4}, "needs a label, .* from 0 to 3, not 4"),
        ({"answer": True}, "needs a label, .* not True"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(BONE, **change)


def test_layouts_have_the_published_parts_in_order():
    layouts = (
        th.notebook.load_published("thesis_table_07").sort_values("position").groupby("layout").part
    )
    for layout, parts in layouts:
        text = format_question(BONE, explanation=layout == "explanation added")
        found = [line.strip("*") for line in text.split("\n") if line.startswith("**")]
        assert found == list(parts)


def test_what_follows_the_options_in_each_layout():
    prompt = f"{format_question(BONE)}\n**Answer**\n"
    assert format_question(BONE, explanation=True) == f"{prompt}C) Retina. Because."
    silent = dataclasses.replace(BONE, explanation="")
    assert format_question(silent, explanation=True) == f"{prompt}C) Retina."
    stopped = dataclasses.replace(BONE, options=("a", "b", "A full stop.", "d"))
    assert format_question(stopped, explanation=True).endswith("\nC) A full stop. Because.")


# published questions

MEDMCQA = {
    "id": "1", "question": "Which is a bone?", "opa": "Femur", "opb": "Liver", "opc": "Retina",
    "opd": "Aorta", "cop": 2, "choice_type": "single", "exp": "Because.", "subject_name": "anatomy",
    "topic_name": None,
}  # fmt: skip
MEDQA = {
    "question": "Which is a bone?", "answer": "Retina", "meta_info": "step1", "answer_idx": "C",
    "options": {"A": "Femur", "B": "Liver", "C": "Retina", "D": "Aorta"}, "metamap_phrases": [],
}  # fmt: skip
MMLU = {
    "question": "Which is a bone?", "subject": "anatomy", "answer": 2,
    "choices": ["Femur", "Liver", "Retina", "Aorta"],
}  # fmt: skip


@pytest.fixture
def hub(monkeypatch):
    """The package datasets with rows to be set; it notes what was asked for."""
    asked = []

    def load_dataset(name, config, *, split, streaming, revision):
        assert streaming and re.fullmatch("[0-9a-f]{40}", revision)
        asked.append((name, config, split))
        return iter(package.rows)

    package = SimpleNamespace(__version__="4.0.0", load_dataset=load_dataset, rows=[], asked=asked)
    package.config = SimpleNamespace()
    package.logging = SimpleNamespace(
        get_verbosity=lambda: 0, set_verbosity=lambda level: None, CRITICAL=50
    )
    monkeypatch.setitem(sys.modules, "datasets", package)
    return package


@pytest.mark.parametrize(
    ("name", "row", "source", "subject"),
    [
        ("medmcqa", MEDMCQA, ("openlifescienceai/medmcqa", None, "validation"), "anatomy"),
        ("medqa", MEDQA, ("GBaker/MedQA-USMLE-4-options", None, "test"), "MedQA"),
        ("mmlu:anatomy", MMLU, ("cais/mmlu", "anatomy", "test"), "anatomy"),
    ],
)
def test_rows_of_the_hub_become_questions(hub, name, row, source, subject):
    hub.rows = [row]
    expected = dataclasses.replace(BONE, subject=subject, explanation=row.get("exp", ""))
    assert load_questions(name) == load_questions(name, "train") == [expected]
    assert hub.asked == [source, (*source[:2], "train")]


def test_faulty_rows_are_an_error_or_counted(hub):
    hub.rows = [MEDMCQA, {**MEDMCQA, "cop": -1}, {**MEDMCQA, "opb": "Femur"}, MEDMCQA]
    with pytest.raises(ValueError, match="^medmcqa, row 2: .* needs a label.*faulty='skip'"):
        load_questions("medmcqa")
    with pytest.warns(UserWarning, match="^2 of 4 rows left out; medmcqa, row 2: .* needs a label"):
        assert load_questions("medmcqa", faulty="skip") == [BONE, BONE]
    hub.rows = [{**MEDMCQA, "cop": -1}]
    with pytest.raises(ValueError, match="^medmcqa has no question; medmcqa, row 1: .* a label"):
        load_questions("medmcqa", faulty="skip")
    hub.rows = [{**MEDMCQA, "exp": None, "subject_name": None}]
    assert load_questions("medmcqa") == [Question(BONE.question, BONE.options, 2)]
    hub.rows = [MMLU]
    with pytest.raises(ValueError, match="^medmcqa has no column 'opa'; it has question, subject"):
        load_questions("medmcqa")


def test_a_letter_of_no_option_is_no_label(hub):
    hub.rows = [MEDQA | {"answer_idx": letter} for letter in ("", "E", "AB", None, "C")]
    with pytest.warns(UserWarning, match="4 of 5 rows left out; medqa, row 1: .* needs a label"):
        assert len(load_questions("medqa", faulty="skip")) == 1


def test_bad_names_are_refused():
    for name in ("pubmedqa", "mmlu:", "medqa:anatomy"):
        message = f"no questions are called '{name}': give medmcqa, medqa, mmlu:SUBJECT"
        with pytest.raises(ValueError, match=message):
            load_questions(name)
    with pytest.raises(ValueError, match="one file without splits: leave split out, not 'test'"):
        load_questions("csv:a.csv", "test")
    with pytest.raises(ValueError, match="faulty must be 'raise' or 'skip', not 'warn'"):
        load_questions("medqa", faulty="warn")


def test_without_the_hubs_package_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match="datasets is not installed: pip install"):
        load_questions("medmcqa")


def test_a_local_file_is_read(tmp_path):
    file, columns = tmp_path / "exam.csv", "question,A,B,C,D,answer\n"
    name = f"csv:{file}"
    file.write_text("subject,question,A,B,C,D,answer\nanatomy,Which is a bone?,1,None,NA,2,C\n")
    options = ("1", "None", "NA", "2")
    assert load_questions(name) == [Question("Which is a bone?", options, 2, "anatomy")]
    file.write_text(columns + "Which is a bone?,Femur,Liver,Retina,Aorta,A\n")
    assert load_questions(name) == [Question(BONE.question, BONE.options, 0)]
    for row, message in (("", "it has no rows"), ("Which is a bone?,Femur,A", "row 1")):
        file.write_text(columns + row)
        with pytest.raises(ValueError, match=message):
            load_questions(name)
    with pytest.raises(FileNotFoundError):
        load_questions(f"csv:{tmp_path / 'other.csv'}")
