"""Questions with four options, one of them right, and the layouts in which a model is asked."""

from dataclasses import dataclass

LETTERS = "ABCD"
INSTRUCTION = "Choose the one option that answers this medical question."


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
