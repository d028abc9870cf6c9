"""The ``tbparse`` command."""

from __future__ import annotations

import sys


def run() -> None:
    """The console script's entry."""
    import gc

    # Start-up makes many objects and no garbage; looking for some costs a tenth of the time that a small log takes.
    gc.disable()
    try:
        from tbparse.cli.app import app

        app(prog_name="tbparse")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.enable()


if __name__ == "__main__":
    run()
