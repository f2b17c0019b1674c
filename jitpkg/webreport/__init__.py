"""What was compiled, as one web page: no other file, no network, light and dark, to print or send.

recording = Recording()
with events.STREAM.listening(recording):
    ...
Path("out.html").write_text(page(recording, "train.py"))
"""

from __future__ import annotations

from jitpkg.webreport.page import page
from jitpkg.webreport.recording import Recording

__all__ = ["Recording", "page"]
