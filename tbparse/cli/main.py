"""The ``tbparse`` command."""

from __future__ import annotations

import sys


def run() -> None:
    """The console script's entry."""
    from tbparse.cli import startup

    startup.begin()
    try:
        from tbparse.cli import quick

        asked = quick.asked(sys.argv[1:])
        if asked is not None:
            from tbparse.cli.explaining import answer

            sys.exit(answer(asked))
        from tbparse.cli.app import build

        build(sys.argv[1:])(prog_name="tbparse")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        startup.end()


if __name__ == "__main__":
    run()
