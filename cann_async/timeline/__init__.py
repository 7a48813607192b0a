"""Step 7: what has run, and when. Reads the records (step 6).

`table` holds them as arrays, `model` is what users hold; `files` finds the writer of a file, `text` draws in the
terminal and `svg` in a notebook.
"""

from .model import Record, Timeline
from .table import Live, Table

__all__ = ["Live", "Record", "Table", "Timeline"]
