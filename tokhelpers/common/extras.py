"""Import names when they are used, and name a missing optional dependency with its command."""

from collections.abc import Iterator
from contextlib import contextmanager

import lazy_loader

EXTRA_OF = {
    "torch": "models", "transformers": "models", "safetensors": "models", "gguf": "models",
    "matplotlib": "notebooks", "seaborn": "notebooks", "scipy": "notebooks", "psutil": "notebooks",
    "IPython": "notebooks", "ipywidgets": "notebooks", "dask": "notebooks",
}  # fmt: skip


@contextmanager
def requires(extra: str | None = None) -> Iterator[None]:
    """Turn a failed import into an ImportError that names the extra to install.

    >>> with requires("data"):
    ...     import no_such_package
    Traceback (most recent call last):
    ImportError: no_such_package is not installed: pip install 'tokhelpers[data]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = extra or EXTRA_OF.get(package)
        if extra is None or package == "tokhelpers":
            raise
        raise ImportError(
            f"{package} is not installed: pip install 'tokhelpers[{extra}]'"
        ) from None


def attach(package: str, file: str) -> tuple:
    """Make a package's ``__getattr__``, ``__dir__`` and ``__all__`` from its stub file.

    A name is imported when it is first used, with a missing extra named.
    """
    load, list_names, names = lazy_loader.attach_stub(package, file)

    def load_name(name: str):
        with requires():
            return load(name)

    return load_name, list_names, names
