# Python reads this folder through PYTHONPATH when a child is to report its uncaught exception. Every Python that a child may start
# reads it too, 2.7 among them: so there is nothing here but what all of them parse.
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_there = [p for p in sys.path if os.path.abspath(p or ".") == _here]
try:
    if sys.version_info >= (3, 8) and os.environ.get("TBPARSE_REPORT_DIR"):
        __import__("tbparse_child_report").install()
except Exception:  # a report is never worth a child's start
    pass
# The child's own sitecustomize is next on the path, which looks as it would without this folder.
sys.path[:] = [p for p in sys.path if p not in _there]
sys.path_importer_cache.pop(_here, None)
_mine = sys.modules.pop("sitecustomize", None)
try:
    __import__("sitecustomize")
except ImportError as _error:
    if _mine is not None:
        sys.modules["sitecustomize"] = _mine
    if getattr(_error, "name", "sitecustomize") != "sitecustomize":
        raise
except BaseException:
    if _mine is not None:
        sys.modules["sitecustomize"] = _mine
    raise
