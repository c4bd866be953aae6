"""The boxes "Try it here": Python that the reader changes and runs in the browser.

A box is a file of this folder, such as `01a_merges.py` for the page of notebook 01. Its first line
is a comment with the title, the comment lines below say what to try, and after an empty line the
code begins. The code runs with the standard library, `textbook` and `checks`, nothing else. The
exercises of lessons 01 to 05 that carry the tag `browser` are boxes, too: the cell to be completed,
and the check below it. What a check keeps, the browser keeps too, and the later exercises load it (see
`worker.js`). Boxes that begin with `try` stand on the page "Try a tokenizer", and read
`learned.txt`: the merges of a tokenizer learned from one million characters of `hpo`, one per line,
which a test learns again.

`sphinx_boxes.py` puts them on the pages.
"""

import ast
import html
import json
import re
import shutil
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TEXTBOOK = ROOT / "tokhelpers" / "textbook.py"
CHECKS = ROOT / "tokhelpers" / "notebook" / "checks.py"
MODULES = [TEXTBOOK, CHECKS]
PYODIDE = HERE.parent / "node_modules" / "pyodide"
TOOLS = {  # imported where an exercise or its hint names them
    "Counter": "from collections import Counter",
    "pairwise": "from itertools import pairwise",
}
RUNTIME = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"]

BOX = """<div class="try-box" role="group" aria-label="{title}">
<label for="{id}">Code</label>
<textarea class="try-code" id="{id}" rows="{rows}" wrap="off" spellcheck="false" \
autocapitalize="off" autocomplete="off">
{code}</textarea>
<div class="try-bar">
<button type="button" class="try-run" disabled>Run</button>
<button type="button" class="try-stop" hidden>Stop</button>
<button type="button" class="try-reset" disabled>Reset</button>
<span class="try-status" role="status"></span>
</div>
<pre class="try-output" role="group" tabindex="0" aria-label="Output" hidden></pre>
</div>"""


def read_boxes(number):
    """Reads the boxes of a notebook.

    number: the two digits with which the notebook's name begins. Returns a list of dicts with id,
    title, intro and code, all strings, in the order of the file names; empty where there are none.
    Raises ValueError for a file that does not begin with a title and what to try.

    >>> [box["title"] for box in read_boxes("04")]
    ['How bytes are written', 'Incomplete UTF-8 sequences']
    """
    boxes = []
    for path in sorted(HERE.glob(f"{number}[a-z]_*.py")):
        head, _, code = path.read_text(encoding="utf-8").partition("\n\n")
        title, *intro = [line.removeprefix("# ") for line in head.splitlines()]
        if not head.startswith("# ") or not intro or not code:
            raise ValueError(f"{path.name} must begin with comments: a title, then what to try")
        box = {"title": title, "intro": " ".join(intro), "code": code.rstrip("\n")}
        boxes.append({"id": "try-" + path.stem.replace("_", "-"), **box})
    return boxes


def read_exercises(number):
    """Reads the exercises of a lesson that run in the browser, as boxes.

    The title is that of the exercise, the code its cell and the check, which is printed.

    >>> [box["title"] for box in read_exercises("01")][:2]
    ['Exercise 1: count the pairs', 'Exercise 2: merge']
    """
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    boxes = []
    for asks, stub, check in zip(cells, cells[1:], cells[2:], strict=False):
        if "browser" in stub["metadata"].get("tags", []):
            title, says = re.search(r"\*\*(Exercise[^*]*)\*\*(.*)", text(asks)).groups()
            code = f"{text(stub)}\n\n\n{printed(text(check))}"
            if "mytok." in text(asks):  # the hint speaks of the functions of lesson 01
                code = f"mytok = checks.mytok(textbook)\nprint(mytok)\n\n\n{code}"
            used = ("checks", "math", "re", "textbook")
            imports = [f"import {name}" for name in used if re.search(rf"\b{name}\b", code)]
            imports += [line for name, line in TOOLS.items() if name in text(asks) + code]
            imports = "\n".join(imports)
            says = re.sub(r"\(\d+ minutes\)\.?|\[([^]]*)\]\([^)]*\)", r"\1", says)
            intro = f"{says} Complete it, and run: the check's sentence says what is wrong.".strip()
            box = {"title": title, "intro": intro, "code": f"{imports}\n\n\n{code}"}
            boxes.append({"id": f"try-{number}-{stub['id']}", **box})
    return boxes


def text(cell):
    """The source of a cell."""
    return "".join(cell["source"])


def printed(check):
    """A check cell as a program: its last expression is printed, and modules stand alone.

    >>> printed("th.notebook.check(f, 1)")
    'print(checks.check(f, 1))'
    """
    code = check.replace("th.notebook.", "checks.").replace("th.textbook.", "textbook.")
    code = code.replace("  # fmt: skip", "")
    lines, last = code.splitlines(), ast.parse(code).body[-1].lineno - 1
    lines[last] = f"print({lines[last]}"
    return "\n".join(lines) + ")"


def box_html(box):
    """Writes one box as HTML.

    box: as from `read_boxes`. Returns a string; title and code are escaped.

    >>> "1 &lt; 2" in box_html({"id": "a", "title": "Less", "code": "print(1 < 2)"})
    True
    """
    shown = {name: html.escape(box[name]) for name in ("id", "title", "code")}
    return BOX.format(**shown, rows=len(box["code"].splitlines()) + 1)


def copy_files(target, pyodide=PYODIDE):
    """Copies what the boxes need into a folder that will be served.

    target: the folder, made if it is missing. pyodide: the folder of the npm package. Returns the
    number of bytes that the first run of a box loads. Raises FileNotFoundError if Pyodide is not
    installed.
    """
    if not (pyodide / RUNTIME[0]).is_file():
        raise FileNotFoundError(f"there is no Pyodide in {pyodide}: run npm ci in {HERE.parent}")
    (target / "pyodide").mkdir(parents=True, exist_ok=True)
    for name in ("try.js", "try.css", "worker.js", "runner.py", "learned.txt"):
        shutil.copy(HERE / name, target)
    for module in MODULES:
        shutil.copy(module, target)
    for name in RUNTIME:
        shutil.copyfile(pyodide / name, target / "pyodide" / name)
    # The list of packages that Pyodide could install would make it name them, and a server of its
    # own, where an import fails. There are none here.
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    (target / "pyodide" / "pyodide-lock.json").write_text(json.dumps({**lock, "packages": {}}))
    names = ("worker.js", "runner.py", "learned.txt", *(path.name for path in MODULES))
    copied = [target / name for name in names]
    return sum(path.stat().st_size for path in [*(target / "pyodide").iterdir(), *copied])
