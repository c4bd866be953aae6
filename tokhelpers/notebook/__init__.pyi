__all__ = [
    "PROFILES",
    "explorer",
    "label_lines",
    "measured",
    "profile",
    "published",
    "readable_token",
    "record_measured",
    "save_figure",
    "set_style",
    "show_source",
    "show_tokens",
    "widget",
]

from .explorer import explorer as explorer
from .figures import (
    label_lines as label_lines,
    save_figure as save_figure,
    set_style as set_style,
    show_source as show_source,
)
from .profiles import PROFILES as PROFILES, profile as profile
from .records import (
    measured as measured,
    published as published,
    record_measured as record_measured,
)
from .tokens import readable_token as readable_token, show_tokens as show_tokens
from .widgets import widget as widget
