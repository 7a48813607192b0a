"""Step 7: what has run, and when. Reads the records (step 6) and never touches the machine.

`model` holds the records as a sequence, `chrome` writes a trace, `text` draws in the terminal.
"""

from .chrome import write_chrome
from .model import Record, Timeline

__all__ = ["Record", "Timeline", "write_chrome"]
