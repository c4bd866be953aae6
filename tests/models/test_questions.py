"""Questions and classes: what each must hold, on all of them."""

import dataclasses
import re
import sys
from collections import Counter
from types import SimpleNamespace

import pandas as pd
import pytest
import questions
from published_questions import load_questions
from questions import Question, format_question, hpo_questions, icd_chapters

import tokhelpers as th

BONE = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 2, "anatomy", "Because.")


@pytest.fixture(scope="module")
def hpo():
    """All questions by split."""
    return {split: hpo_questions(split=split) for split in ("train", "test")}


@pytest.fixture(scope="module")
def terms():
    """Terms by name."""
    by_code = questions._hpo()
    by_name = {term.name: (code, term) for code, term in by_code.items()}
    assert len(by_name) == len(by_code)
    return by_name


@pytest.fixture(scope="module")
def icd():
    return {split: icd_chapters(split=split) for split in ("train", "test")}


def test_stored_questions_are_those_that_the_tool_makes():
    for name, table in questions.stored_tables().items():
        stored = th.notebook.load_questions(name)
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)


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


# the Human Phenotype Ontology


def test_hpo_options_are_near_one_right_and_none_gives_itself_away(hpo, terms):
    asked, siblings = set(), Counter()
    for question in hpo["train"] + hpo["test"]:
        right = question.options[question.answer]
        code, term = terms[right]
        introduction, _, definition = question.question.partition(" describe? ")
        assert introduction and definition == term.definition
        assert terms[question.subject][0] == term.branches[-1] in term.above | {code}
        assert question.explanation.startswith("It is a kind of: ")
        text = definition.lower()
        assert right.lower() not in text
        assert not set(right.lower().split()) <= set(text.rstrip(".").split())
        for other_code, other in (terms[name] for name in question.options if name != right):
            assert other.branches[-1] == term.branches[-1]
            assert code not in other.above and other_code not in term.above
            assert not other.forms & term.forms
            assert not any(form in text for form in other.forms)
            siblings[other.branches[0] == term.branches[0]] += 1
        asked.add(right)
    assert len(asked) == len(hpo["train"]) + len(hpo["test"])
    assert siblings[True] > 2 * siblings[False]


def test_hpo_numbers_subjects_and_places(hpo):
    assert (len(hpo["train"]), len(hpo["test"])) == (11_006, 1_174)
    assert len({question.subject for part in hpo.values() for question in part}) == 23
    for part in hpo.values():
        places = Counter(question.answer for question in part)
        assert all(0.22 < places[place] / len(part) < 0.28 for place in range(4))


def test_hpo_splits_share_no_name_and_no_family(hpo, terms):
    names = {split: {o for q in part for o in q.options} for split, part in hpo.items()}
    families = {s: {terms[name][1].branches[0] for name in part} for s, part in names.items()}
    texts = {split: {q.question for q in part} for split, part in hpo.items()}
    for parts in (names, families, texts):
        assert parts["train"].isdisjoint(parts["test"])


def test_hpo_draws_nest_and_change_with_the_seed(hpo):
    assert hpo_questions(50) == hpo["train"][:50]
    draws = hpo["test"], hpo_questions(split="test", seed=1)
    orders = [[q.question for q in some] for some in draws]
    assert set(orders[0]) == set(orders[1]) and orders[0] != orders[1]
    options = [{q.question: q.options for q in some} for some in draws]
    assert options[0] != options[1]


@pytest.mark.parametrize("draw", [hpo_questions, icd_chapters])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "split must be 'train' or 'test', not 'dev'"),
        ({"n": 0}, "n must be at least 1, not 0"),
        ({"n": 200_000, "split": "test"}, "n must be at most [0-9]+, all in the split 'test'"),
    ],
)
def test_bad_draws_are_refused(draw, arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(**arguments)


# chapters of ICD-10-CM


@pytest.mark.long
def test_icd_classes_are_the_chapters(icd):
    import simple_icd_10_cm as package

    titles = [code for code in package.get_all_codes() if package.is_chapter(code)]
    for rows in icd.values():
        assert set(rows.label) == set(range(22))
        for row in rows.sample(300, random_state=0).itertuples():
            assert package.get_ancestors(row.code)[-1] == titles[row.label]
            assert package.get_description(titles[row.label]).startswith(f"{row.chapter} (")
            assert package.get_description(row.code) == row.text
    assert sum(map(len, icd.values())) == 97_449


def test_icd_splits_share_no_category_and_no_text(icd):
    rows = pd.concat(icd, names=["split"]).reset_index("split")
    assert rows.text.is_unique
    rows["code"] = rows.code.str[:3]
    assert rows.groupby("code").split.nunique().eq(1).all()
    counts = rows.groupby(["label", "split"]).code.nunique().unstack()
    assert (counts.test == -(-counts.sum(axis=1) // 10)).all()


def test_icd_draws_are_even_over_chapters_and_nest(icd):
    some = icd_chapters(440, seed=3)
    counts = some.label.value_counts()
    assert counts[21] == 2  # all the last chapter has in this split
    assert set(counts.drop(21)) == {20, 21} and some.text.is_unique
    assert set(icd_chapters(100, seed=3).code) < set(some.code)
    assert set(some.code) != set(icd_chapters(440, seed=4).code)
    assert len(set(some.label[:50])) > 15  # in no order of chapters
    assert icd_chapters(len(icd["test"]), split="test").equals(icd["test"])


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
    with pytest.raises(ImportError, match="medmcqa.* needs datasets 4 or later: pip install"):
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
