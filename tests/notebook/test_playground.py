"""The playground's page as a file; what it does in a browser is tested in tests/browser."""

import base64
import gzip
import json
import re

import pytest

import tokhelpers as th
from tokhelpers.notebook.playground import CHECK, LICENCES, licence_of, packed
from tokhelpers.tokenizer.vendors import NAMES


@pytest.fixture(scope="module")
def base():
    return th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)


def test_page_holds_each_tokenizer_with_its_ids_of_the_check(base, tmp_path):
    named = {'a <b> & "c"': base, "longer": th.extend(base, th.Extension(["bat"]))}
    th.notebook.write_playground(tmp_path / "page.html", **named)
    page = (tmp_path / "page.html").read_text("utf-8")
    catalogue = re.search(r'id="playground-catalogue">(.*?)</script>', page)[1]
    entries = json.loads(catalogue)["tokenizers"]
    assert [entry["name"] for entry in entries] == list(named)
    assert entries[1]["check"] == named["longer"].encode(CHECK).ids
    assert 'data-tokenizer="a &lt;b&gt; &amp; &quot;c&quot;"' in page
    assert not re.search(r"""(?:src|href)=["']?(?!data:)\w""", page.split("<script", 1)[0])
    assert "<!--" not in page and "Apache-2.0" in page


def test_packed_tokenizer_is_its_json_with_ids(base):
    settings = json.loads(gzip.decompress(base64.b64decode(packed(base))))
    written = json.loads(base.to_str())
    tokens = settings["model"]["vocab"]
    assert dict(zip(tokens, range(len(tokens)), strict=True)) == written["model"]["vocab"]
    ids = iter(settings["model"]["merges"])
    assert [[tokens[a], tokens[b]] for a, b in zip(ids, ids, strict=True)] == written["model"][
        "merges"
    ]
    assert {**settings, "model": 0} == {**written, "model": 0}


def test_what_the_page_cannot_hold_is_refused(base, tmp_path):
    page = tmp_path / "page.html"
    adapted = th.AdaptBPE(base, ["bat"])
    with pytest.raises(ValueError, match="no tokenizer for the page"):
        th.notebook.write_playground(page)
    with pytest.raises(ValueError, match="two tokenizers are called 'mistral-v1'"):
        th.notebook.write_playground(page, "mistral-v1", "mistral-v1")
    with pytest.raises(ValueError, match="adapted is an AdaptBPE encoder"):
        th.notebook.write_playground(page, adapted=adapted)
    with pytest.raises(TypeError):
        th.notebook.write_playground(page, other=3)
    assert not page.exists()


def test_each_vocabulary_that_is_loaded_by_name_has_a_licence():
    assert set(LICENCES) <= set(NAMES) and all(map(licence_of, NAMES))
    assert licence_of("my-folder") == ""
