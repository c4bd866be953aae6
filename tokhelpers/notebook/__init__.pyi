from .bring_your_own import METHODS as METHODS, read_own as read_own
from .checks import check as check, check_answer as check_answer, mytok as mytok
from .drawings import (
    draw_boxes as draw_boxes,
    draw_bytes as draw_bytes,
    draw_index as draw_index,
    draw_lattice as draw_lattice,
    draw_longest_match as draw_longest_match,
    draw_merges as draw_merges,
    draw_pipeline as draw_pipeline,
    draw_tokens as draw_tokens,
)
from .figures import (
    label_lines as label_lines,
    panel_size as panel_size,
    save_figure as save_figure,
    set_style as set_style,
    show_source as show_source,
)
from .languages import (
    compare_language as compare_language,
    supplement_tokens as supplement_tokens,
)
from .playground import write_playground as write_playground
from .records import (
    load_measured as load_measured,
    load_published as load_published,
    profile as profile,
    record_measured as record_measured,
    reproduced as reproduced,
)
from .tokens import show_tokens as show_tokens
from .widgets import widget as widget
