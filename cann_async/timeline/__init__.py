"""Step 7: what has run, and when. Reads the records (step 6) and never touches the machine."""

from .chrome import write_chrome
from .model import Record, Timeline

__all__ = ["Record", "Timeline", "write_chrome"]
