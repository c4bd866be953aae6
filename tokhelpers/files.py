"""Where the project's files stand, and files that are written whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

PLACE = Path(__file__).parent.parent
# Where only the package is installed there is no checkout: figures then go where one works.
CHECKOUT = PLACE if (PLACE / "data" / "paper").is_dir() else None


def write_whole(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Write a file whole or not at all; ``content`` may be a function that writes it."""
    draft = path.with_name(f"{path.name}.{uuid4().hex}.tmp")  # others may write at the same time
    try:
        content(draft) if callable(content) else draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
