"""Write what the site's playground loads: its script, its style, and each tokenizer as a script.

`python site/playground.py` fills `build/site/playground`, which Sphinx copies to the top of the site.
Pages opened as files may fetch nothing, but they may load scripts: so the data of a tokenizer are one.
"""

import json
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import tokhelpers as th
from tokhelpers.notebook import playground as page
from tokhelpers.tokenizer.vendors import CONVERSION, NAMES

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "build" / "site" / "playground"
FIRST = ("smollm2-135m", "mistral-v1")  # shown before anything is chosen: the smallest ones
SIZE = 4_000  # tokens that our own extensions add


def estonian(llama):
    """Llama 3 with Estonian tokens, learned by continued training."""
    corpus = th.load_corpus("training:ekk_Latn")
    return th.extend(llama, th.continue_bpe(llama, corpus, SIZE))


def superwords(llama):
    """Llama 3 with tokens that may span words, learned from medical English."""
    base = th.with_superwords(th.with_merge_skipping(llama, False))
    return th.extend(base, th.continue_bpe(base, th.load_corpus("hpo"), SIZE))


OURS = {  # name: what makes it from Llama 3, and the licence of the text it learned from
    "llama-3-estonian": (estonian, "CC BY-SA 4.0 for the Estonian word counts"),
    "llama-3-superwords": (superwords, "HPO licence for the medical text"),
}


def tokenizers():
    """Names, tokenizers and licences: those that the package loads by name, and two of our own."""
    for name in NAMES:
        try:
            yield name, th.load_tokenizer(name), page.licence_of(name)
        except ModuleNotFoundError as error:  # SmolLM2's package is not to be had everywhere
            print(f"the playground lacks {name}: {error}")
        if name == "llama-3":
            llama = th.load_tokenizer(name)
            for ours, (make, licence) in OURS.items():
                yield ours, make(llama), f"{page.licence_of(name)}; {licence}"


def files():
    """The files, by name, and what the page knows of each tokenizer."""
    scripts, entries = {}, []
    for name, tokenizer, licence in tokenizers():
        packed = page.packed(tokenizer)
        script = f"globalThis.playgroundData[{json.dumps(name)}] = {json.dumps(packed)};\n"
        scripts[f"{name}.js"] = script
        more = {"src": f"playground/{name}.js", "megabytes": round(len(script) / 1e6, 1)}
        entries.append(page.entry(name, tokenizer, licence, chosen=name in FIRST, **more))
    return scripts | {"catalogue.json": json.dumps(entries)}


def stamp():
    """What the tokenizers depend on: while it stays the same, they are not made anew."""
    packages = [package.replace("_", "-") for package, _ in NAMES.values()]
    facts = [CONVERSION, SIZE, *(version(name) for name in ("tokenizers", *installed(packages)))]
    sources = [
        Path(__file__),
        Path(page.__file__),
        *sorted((ROOT / "tokhelpers/train").glob("*.py")),
    ]
    return sha256(
        repr(facts).encode() + b"".join(path.read_bytes() for path in sources)
    ).hexdigest()


def installed(packages):
    """Those of some packages that are installed."""
    from importlib.metadata import PackageNotFoundError

    for name in sorted(set(packages)):
        try:
            version(name)
            yield name
        except PackageNotFoundError:
            pass


def main():
    """Write the files; those of the tokenizers only if they would change."""
    folder, kept = BUILT / "playground", BUILT.parent / "playground.stamp"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "playground.js").write_text(page.script(), encoding="utf-8")
    (folder / "playground.css").write_text(page.stylesheet(), encoding="utf-8")
    licence = page.PAGE / "tokenizers.LICENSE"
    (folder / "tokenizers.LICENSE.txt").write_text(licence.read_text("utf-8"), encoding="utf-8")
    is_whole = (BUILT.parent / "catalogue.json").is_file()
    if is_whole and kept.is_file() and kept.read_text() == stamp():
        return
    for old in folder.glob("*.js"):
        if old.name != "playground.js":
            old.unlink()
    for name, content in files().items():
        place = folder if name.endswith(".js") else BUILT.parent
        (place / name).write_text(content, encoding="utf-8")
    kept.write_text(stamp())


if __name__ == "__main__":
    main()
