"""The command line: tables and JSON on stdout, the rest on stderr, exit codes 0, 1 and 2."""

import json
import os
import re
import subprocess
import sys

import pytest
from strategies import LIKE_REAL
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typer.testing import CliRunner

import tokhelpers as th
from tokhelpers.__main__ import app
from tokhelpers.tokenizer.saving import text_hash


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small tokenizer in a file: its token for "zz" is cut by its own pattern, or not."""
    folder = tmp_path_factory.mktemp("small")
    made = th.train_byte_level_bpe(th.load_corpus("wordfreq:en", chars=50_000), vocab_size=600)
    made.save(str(folder / "tokenizer.json"))
    vocab = json.loads(made.to_str())
    vocab["model"]["vocab"]["never made"] = 600
    (folder / "with_finding.json").write_text(json.dumps(vocab))
    return folder


def test_help_shows_an_example_that_names_the_command():
    commands = [
        "inspect",
        "explain",
        "compare",
        "premium",
        "train",
        "extend",
        "prune",
        "playground",
    ]
    for command in commands:
        told = run(command, "--help")
        assert f"Example: python -m tokhelpers {command}" in told.stdout and not told.exit_code


def test_inspect(small):
    told = run("inspect", small / "tokenizer.json", "--json")
    assert told.exit_code == 0 and "testing every token" in told.stderr, told.stderr
    found = json.loads(told.stdout)
    assert found["vocabulary"] == 600 and found["never_produced_by_text"] == 0
    assert sum(row["tokens"] for row in found["rows"].values()) == 600
    table = run("inspect", small / "with_finding.json")
    assert table.exit_code == 1 and "never produced by text: 1" in table.stdout


def test_explain(small):
    told = run("explain", small / "tokenizer.json", " the")
    assert told.exit_code == 0, told.stderr
    assert "Ġ + t" in told.stdout and "by merges" in told.stdout and "└" in told.stdout
    told = run("explain", small / "tokenizer.json", " thezz", "--json")
    assert told.exit_code == 0 and "nearest to it" in told.stderr
    found = json.loads(told.stdout)
    assert found["token"] is None and found["rows"][1]["step"] == 1
    assert run("explain", small / "tokenizer.json", "").exit_code == 2


def test_compare_vocabularies(small):
    names = [small / "tokenizer.json", small / "with_finding.json"]
    found = json.loads(run("compare", *names, "--json").stdout)["rows"]
    assert found["all"]["shared"] == 600 and found["all"]["only_second"] == 1
    assert "two at a time, got 1" in run("compare", names[0]).stderr


def test_compare(small):
    names = [small / "tokenizer.json", "mistral-v1"]
    told = run("compare", *names, "--on", "wordfreq:en", "--chars", 20_000, "--json")
    assert told.exit_code == 0
    rows = json.loads(told.stdout)["rows"]
    words = th.load_corpus("wordfreq:en", chars=20_000, split="test")
    for name in names:
        expected = th.evaluate(th.load_tokenizer(str(name)), words)
        assert rows[str(name)]["tokens"] == expected.tokens
        assert rows[str(name)]["bytes_per_token"] == pytest.approx(expected.bytes_per_token)


def test_extend_and_prune(small, tmp_path):
    base = small / "tokenizer.json"
    longer, shorter = tmp_path / "longer", tmp_path / "shorter"
    asked = ["wordfreq:fi", "--chars", 50_000]
    told = run("extend", base, *asked, "-n", 40, "--out", longer, "--json")
    assert told.exit_code == 0, told.stderr
    expected = th.load_tokenizer(base)
    words = th.load_corpus("wordfreq:fi", chars=50_000)
    expected = th.extend(expected, th.continue_bpe(expected, words, 40))
    assert th.load_tokenizer(longer).get_vocab() == expected.get_vocab()
    # a list has no text of its own to measure on
    flores = th.load_corpus("flores:fin_Latn", chars=50_000)
    measured = f"{th.evaluate(expected, flores).bytes_per_token:.6g}"
    rows = json.loads(told.stdout)
    assert (rows["added"], rows["measured_on"]) == (40, "flores:fin_Latn")
    assert f"{rows['rows']['after']['bytes_per_token']:.6g}" == measured
    card = (longer / "README.md").read_text("utf-8")
    assert f"python -m tokhelpers extend {base} wordfreq:fi --tokens 40" in card
    assert "|  | before, on flores:fin_Latn | after, on flores:fin_Latn |" in card
    assert re.search(rf"\| bytes_per_token \| \S+ \| {measured} \|", card)
    assert text_hash(th.count_pretokens(flores, expected))[0] in card
    told = run("prune", longer, *asked, "-n", 30, "--out", shorter)
    assert told.exit_code == 0 and "pruned: 30" in told.stdout, told.stderr
    assert th.load_tokenizer(shorter).get_vocab_size() == 610
    card = (shorter / "README.md").read_text("utf-8")
    assert "wordfreq:fi --tokens 30 --by leaf-frequency" in card


def test_the_held_out_part_is_evaluated(small, tmp_path):
    asked = ["hpo", "-n", 20, "--chars", 50_000, "--out", tmp_path / "out", "--json"]
    rows = json.loads(run("extend", small / "tokenizer.json", *asked).stdout)
    sample = th.measure.sample_documents(th.load_corpus("hpo", split="test"), 50_000)
    measured = th.evaluate(th.load_tokenizer(tmp_path / "out"), sample.documents)
    assert rows["measured_on"] == f"held-out text, 50,000 of {sample.of_chars:,} characters"
    assert rows["rows"]["after"]["bytes_per_token"] == pytest.approx(measured.bytes_per_token)
    assert "- hpo, held out (split='test'), 50,000 of " in (
        tmp_path / "out" / "README.md"
    ).read_text("utf-8")


@pytest.fixture
def text(tmp_path):
    """A text with lines for both splits, in which an added token of Phi-3 stands."""
    lines = [f"low lower </s> lowest newest widest {i}" for i in range(300)]
    (tmp_path / "ok.txt").write_text("\n".join(lines))
    return f"text:{tmp_path}/ok.txt"


@pytest.mark.parametrize("name", LIKE_REAL)
def test_every_command_takes_added_tokens_that_cut_text(name, text, tmp_path):
    LIKE_REAL[name]().save(str(tmp_path / "base.json"))
    base, documents = tmp_path / "base.json", th.load_corpus(text, split="test")
    for command in ("extend", "prune"):
        told = run(command, base, text, "-n", 5, "--out", tmp_path / command, "--json")
        assert told.exit_code == 0, told.stderr
        after = json.loads(told.stdout)["rows"]["after"]
        made = th.load_tokenizer(tmp_path / command)
        assert after["tokens"] == th.evaluate(made, documents).tokens
        assert f"{text}, held out" in (tmp_path / command / "README.md").read_text("utf-8")
    told = run("compare", base, tmp_path / "extend", "--on", text)
    assert told.exit_code == 0, told.stderr
    assert f" {int(th.evaluate(th.load_tokenizer(base), documents).tokens)}\n" in told.stdout


def test_a_folder_is_what_its_new_tokenizer_is_like(text, tmp_path):
    """Roles, template and largest length, elsewhere and in place."""
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>", "model_max_length": 77}
    chat = tmp_path / "chat"
    made = PreTrainedTokenizerFast(
        tokenizer_object=LIKE_REAL["llama-2"](), chat_template="T", **roles
    )
    made.save_pretrained(chat)
    for command, base, out in (
        ("extend", chat, tmp_path / "other"),
        ("extend", chat / "tokenizer.json", tmp_path / "another"),
        ("prune", chat, chat),
    ):
        told = run(command, base, text, "-n", 3, "--out", out, "--force")
        assert told.exit_code == 0, told.stderr
        new = AutoTokenizer.from_pretrained(out)
        assert {name: getattr(new, name) for name in roles} == roles and new.chat_template == "T"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "file"], "file is a file: give the name of a folder"),
        (["--encoding", "utf-99"], "encoding='utf-99' is unknown"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_counted(
    options, said, small, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    told = run("extend", small / "tokenizer.json", "hpo", "-n", 5, "--out", "new", *options)
    assert told.exit_code == 2 and said in told.stderr.replace(str(tmp_path) + "/", "")
    assert "counting" not in told.stderr and not (tmp_path / "new").exists()


def test_a_least_frequency(small, text, tmp_path):
    asked = ["extend", small / "tokenizer.json", text, "-n", 400, "--out", tmp_path / "out"]
    told = run(*asked, "--min-frequency", 50)
    assert "at min_frequency=50: lower min_frequency or bring" in told.stderr
    assert "--min-frequency 50" in (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "at min_frequency=1: bring more text" in run(*asked, "--force").stderr
    assert "out exists and is not empty" in run(*asked).stderr


def test_a_path_that_is_no_corpus(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.txt").write_text("a text")
    told = run("extend", small / "tokenizer.json", "ok.txt", "-n", 1, "--out", "new")
    assert told.exit_code == 2 and "write text:ok.txt" in told.stderr


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_inspect_and_explain_other_models(kind, tmp_path):
    made = getattr(th, f"train_{kind}")(th.load_corpus("wordfreq:en", chars=20_000), vocab_size=400)
    made.save(str(tmp_path / "tokenizer.json"))
    told = run("inspect", tmp_path / "tokenizer.json", "--json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["vocabulary"] == 400 and found["rows"]["letters"]["tokens"] > 50
    told = run("explain", tmp_path / "tokenizer.json", "other words")
    assert told.exit_code == 0, told.stderr
    tokens = made.encode("other words", add_special_tokens=False).tokens
    assert all(token in told.stdout for token in tokens)


def test_fewer_tokens_than_asked_for_are_a_finding(small, tmp_path):
    (tmp_path / "text").write_text("zqx zqx\n" * 20)
    options = ["-n", 400, "--out", tmp_path / "out"]
    told = run("extend", small / "tokenizer.json", f"text:{tmp_path}/text", *options)
    assert told.exit_code == 1
    assert "warning: asked for 400 new tokens; this text yields" in told.stderr
    assert (tmp_path / "out" / "tokenizer.json").exists()
    # equal lines share a split, so this text has no held-out part: the card says on what it measured
    assert "has no document in the split 'test'" in told.stderr
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "after, on the training text" in card and "held out" not in card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "lama-3"], "error: no tokenizer is called 'lama-3': use llama-3, qwen"),
        (["compare", "qwen", "--on", "wordfreq:xx"], "error: wordfreq has no list for 'xx'"),
        (["extend", "qwen", "hpo", "-n", "0", "--out", "x"], "Invalid value for .--tokens"),
        (["extend", "qwen", "hpo", "-n", "1"], "Missing option '--out'"),
        (["prune", "qwen", "hpo", "-n", "1", "--by", "luck", "--out", "x"], "error: .*'luck'"),
        (["extinct"], "No such command 'extinct'"),
    ],
)
def test_wrong_use_is_told_in_a_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = run(*arguments)
    assert told.exit_code == 2 and not told.stdout
    assert "Traceback" not in told.stderr
    plain = " ".join(told.stderr.replace("\u2502", " ").split())
    assert re.search(message, plain), plain
    assert not list(tmp_path.iterdir())


def test_as_a_process():
    command = [sys.executable, "-m", "tokhelpers", "inspect", "lama-3"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2 and told.stdout == ""
    assert told.stderr.splitlines()[-1].startswith("error: no tokenizer is called 'lama-3'")


# --- what is measured ------------------------------------------------------------------------------
def test_the_sample_does_not_depend_on_the_names_of_files(small, tmp_path):
    """Two files in either order: the same held-out sample, and its share is said everywhere."""
    texts = {"english": [f"a line of english text {i}" for i in range(3_000)]}
    texts["other"] = [f"päätös yhtiön {i} kyllästyä" for i in range(9_000)]
    rows = []
    for names in (("a", "b"), ("b", "a")):
        folder = tmp_path / "".join(names)
        folder.mkdir()
        for name, lines in zip(names, texts.values(), strict=True):
            (folder / f"{name}.txt").write_text("\n".join(lines))
        asked = [small / "tokenizer.json", f"text:{folder}", "-n", 5, "--chars", 10_000_000]
        asked += ["--out", tmp_path / "out", "--force", "--json"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tokhelpers.command_line.TEST_CHARS", 9_000)
            extended = json.loads(run("extend", *asked).stdout)
        assert re.fullmatch(r"held-out text, 9,000 of [\d,]+ characters", extended["measured_on"])
        assert extended["measured_on"] in (tmp_path / "out" / "README.md").read_text("utf-8")
        options = ["--on", f"text:{folder}", "--chars", 9_000, "--json"]
        compared = json.loads(run("compare", small / "tokenizer.json", *options).stdout)
        assert compared["sample"].startswith("9,000 of ")
        rows.append((extended["rows"], [*compared["rows"].values()]))
    assert rows[0] == rows[1]


def test_other_texts_are_evaluated_as_well(small, tmp_path):
    options = ["-n", 50, "--out", tmp_path / "out", "--also-on", "wordfreq:fi", "--json"]
    result = run("prune", small / "tokenizer.json", "wordfreq:en", "--chars", 50_000, *options)
    rows = json.loads(result.stdout)["rows"]
    assert list(rows) == ["before", "after", "before, wordfreq:fi", "after, wordfreq:fi"]
    assert rows["after, wordfreq:fi"]["tokens"] > rows["before, wordfreq:fi"]["tokens"]
    assert "after, wordfreq:fi" in (tmp_path / "out" / "README.md").read_text("utf-8")


def test_a_folder_inside_the_corpus_is_refused(small, tmp_path):
    (tmp_path / "a.txt").write_text("a text\nand more")
    asked = ["extend", small / "tokenizer.json", f"text:{tmp_path}", "-n", 1]
    result = run(*asked, "--out", tmp_path / "new" / "folder")
    assert result.exit_code == 2 and "is inside the corpus folder" in result.stderr
    assert "counting" not in result.stderr and not (tmp_path / "new").exists()


# --- further commands and options ------------------------------------------------------------------
def test_version():
    assert run("--version").stdout == f"tokhelpers {th.__version__}\n"


@pytest.mark.parametrize("kind", ["byte-level-bpe", "sentencepiece-bpe", "unigram", "wordpiece"])
def test_train(kind, tmp_path):
    options = [
        "--chars",
        50_000,
        "-n",
        500,
        "--special",
        "<s>",
        "--out",
        tmp_path / "out",
        "--json",
    ]
    result = run("train", kind, "hpo", *options)
    assert result.exit_code == 0, result.stderr
    table = json.loads(result.stdout)
    tokenizer = th.load_tokenizer(tmp_path / "out")
    assert table["vocabulary"] == tokenizer.get_vocab_size() == 500
    assert tokenizer.token_to_id("<s>") is not None
    assert "no eos, pad, chat template in" in result.stderr
    assert f"train {kind} hpo --tokens 500" in (tmp_path / "out" / "README.md").read_text("utf-8")


def test_premium(small):
    codes = ["--language", "fin_Latn", "--json"]
    table = json.loads(run("premium", small / "tokenizer.json", *codes).stdout)
    tokenizer = th.load_tokenizer(small / "tokenizer.json")
    english, finnish = (
        th.evaluate(tokenizer, th.load_corpus(f"flores:{code}")).tokens
        for code in ("eng_Latn", "fin_Latn")
    )
    [premium] = table["rows"]["fin_Latn"].values()
    assert premium == pytest.approx(finnish / english)


def test_words_of_a_file(small, tmp_path):
    (tmp_path / "words.txt").write_text("Krankenkasse\nÄrztekammer\n\n")
    asked = [small / "tokenizer.json", "hpo", "--chars", 20_000, "--out", tmp_path / "out"]
    result = run("extend", *asked, "--words", tmp_path / "words.txt")
    assert result.exit_code == 0, result.stderr
    tokens = th.load_tokenizer(tmp_path / "out").encode("die Krankenkasse Ärztekammer").tokens
    assert len(tokens[-2:]) == 2 and tokens[-2] == "ĠKrankenkasse"
    assert "give the number of tokens with --tokens, or" in run("extend", *asked).stderr


def test_a_tiktoken_file(small, tmp_path):
    out = tmp_path / "new.tiktoken"
    asked = ["extend", small / "tokenizer.json", "hpo", "--chars", 20_000, "-n", 5, "--out", out]
    result = run(*asked)
    assert result.exit_code == 0 and "has no special tokens and no pattern" in result.stderr
    lines = out.read_text().splitlines()
    assert len(lines) == 605 and lines[-1].endswith(" 604")
    assert "new.tiktoken exists: choose another name, or pass --force" in run(*asked).stderr


def test_list_tokens_of_a_category(small):
    result = run("inspect", small / "with_finding.json", "--list", "never", "--json")
    assert [row["token"] for row in json.loads(result.stdout)["rows"].values()] == ["never made"]
    result = run("inspect", small / "with_finding.json", "--list", "nothing")
    assert result.exit_code == 2 and "use one of by merges" in result.stderr


def test_names_are_checked_before_anything_is_measured(small):
    result = run("compare", small / "tokenizer.json", "lama-3", "--on", "hpo")
    assert result.exit_code == 2 and "evaluating" not in result.stderr


def test_roles_of_a_packaged_tokenizer_are_saved(tmp_path):
    asked = ["hpo", "--chars", 20_000, "-n", 3, "--out"]
    result = run("extend", "smollm2-135m", *asked, tmp_path / "smollm2")
    assert result.exit_code == 0 and "use --like" not in result.stderr
    new = AutoTokenizer.from_pretrained(tmp_path / "smollm2")
    assert new.pad_token == "<|im_end|>" and new.chat_template
    result = run("extend", "qwen", *asked, tmp_path / "qwen")
    assert "no eos, pad, chat template in" in result.stderr


@pytest.mark.parametrize("name", ["öut", "out"])
def test_a_terminal_without_letters_and_a_reader_that_has_gone(name, small, tmp_path):
    """Forced ASCII, and stdout closed at once: the command ends as it would otherwise."""
    command = [sys.executable, "-m", "tokhelpers", "prune", small / "tokenizer.json", "hpo"]
    command += ["--chars", "9000", "-n", "3", "--out", tmp_path / name]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if name == "out":
        process.stdout.close()
        stderr = process.stderr.read()
    else:
        stdout, stderr = process.communicate()
        assert "\\xf6ut" in stdout
    assert process.wait() == 0, stderr
    assert "error" not in stderr.lower() and "Broken" not in stderr
    process.stderr.close()


def test_playground_writes_a_page_and_keeps_an_existing_one(small, tmp_path):
    page = tmp_path / "page.html"
    given = ("playground", small, small / "with_finding.json", "--out", page)
    told = run(*given)
    assert told.exit_code == 0 and "to be opened in a browser" in told.stdout
    content = page.read_text("utf-8")
    assert (
        f'data-tokenizer="{small.name}"' in content and 'data-tokenizer="with_finding"' in content
    )
    told = run(*given)
    assert told.exit_code == 2 and "--force" in told.stderr
    assert run(*given, "--force").exit_code == 0
    told = run("playground", small, small, "--out", tmp_path / "other.html")
    assert told.exit_code == 2 and "two tokenizers are called" in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
