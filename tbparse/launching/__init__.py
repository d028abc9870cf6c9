"""Running a child: everything it prints passes through at once, and what killed it is known when it ends.

The package is not called ``launch``: importing a module of it would put the package where ``tbparse.launch``, the function,
belongs.
"""

from __future__ import annotations

import logging

logging.getLogger("tbparse").addHandler(logging.NullHandler())
