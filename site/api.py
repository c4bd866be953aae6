"""The pages of the API, made from the docstrings: one for each folder of the package, and a list."""

import re
from inspect import Parameter, getdoc, isclass, signature

import tokhelpers as th

FOLDERS = ("tokenizer", "text", "train", "adapt", "measure", "models", "notebook")
QUALIFIED = re.compile(r"\b[a-z_]+(?:\.\w+)*\.([A-Z]\w*)")  # collections.abc.Iterable: Iterable
EXAMPLE = re.compile(r"(?m)^>>>(?:.+\n?)+")  # down to the next empty line


def reference():
    """All pages of the API, by path: a list of names, and each folder's functions in full."""
    chapters = {f"api/{folder}.md": chapter(folder) for folder in FOLDERS}
    return {"package.md": overview()} | chapters


def overview():
    """The list: folders in the order in which they import one another, and their names."""
    page = [
        "# The package\n\n`import tokhelpers as th` is enough: `th.NAME` for everyday names, "
        "`th.FOLDER.NAME` for all. Each folder imports only from those above it. The pages of the folders "
        "have arguments, errors, sources and an example for each function.\n"
    ]
    for folder in FOLDERS:
        module = getattr(th, folder)
        page.append(f"## {folder}\n\n{paragraph(module)}\n\n| name | what it does |\n|---|---|")
        for name in module.__all__:
            everyday = " (everyday)" if name in th.__all__ else ""
            link = f'<a href="api/{folder}.html#{anchor(name)}"><code>{name}</code></a>'
            summary = first_sentence(getattr(module, name)).replace("|", "\\|")
            page.append(f"| {link}{everyday} | {summary} |")
        page.append("")
    return "\n".join(page)


def chapter(folder):
    """The page of one folder: each public name with its signature and its docstring."""
    module = getattr(th, folder)
    page = [f"# {folder}\n\n{paragraph(module)}\n"]
    for name in module.__all__:
        value = getattr(module, name)
        full = f"th.{name}" if name in th.__all__ else f"th.{folder}.{name}"
        page.append(f'<span id="{anchor(name)}"></span>\n\n## {name}\n')
        if callable(value):
            page.append(
                f"```python\n{declaration(full, value)}\n```\n\n{markdown(getdoc(value))}\n"
            )
        else:
            page.append(f"```python\n{full} = {value!r}\n```\n")
    return "\n".join(page)


def anchor(name):
    """Where a name stands on its page: not its heading's own anchor, which lacks its case."""
    return f"api-{name}"


def paragraph(module):
    """The first paragraph of a docstring, on one line."""
    return " ".join(module.__doc__.split("\n\n")[0].split())


def first_sentence(value):
    """What a function or class does; constants are named as such."""
    return " ".join(getdoc(value).split("\n\n")[0].split()) if callable(value) else "A constant."


def declaration(name, value):
    """A signature with short names of types, broken after its commas where it is long."""
    try:
        arguments = QUALIFIED.sub(r"\1", str(signature(value)))
    except ValueError:  # a class made in C
        return name
    if isclass(value):
        arguments = arguments.removesuffix(" -> None")
    line = name + arguments
    if len(line) <= 88:
        return line
    parameters = list(signature(value).parameters.values())
    kinds = [parameter.kind for parameter in parameters]
    if Parameter.VAR_POSITIONAL not in kinds and Parameter.KEYWORD_ONLY in kinds:
        parameters.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    lines = QUALIFIED.sub(r"\1", ",\n    ".join(map(str, parameters)))
    return f"{name}(\n    {lines},\n){arguments[arguments.rindex(')') + 1 :]}"


def markdown(docstring):
    """A docstring, which is Markdown but for its examples: these become blocks of code."""
    return EXAMPLE.sub(lambda example: f"```python\n{example[0].rstrip()}\n```\n", docstring)
