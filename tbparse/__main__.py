"""``python -m tbparse`` is the command ``tbparse``."""

from tbparse.cli.main import run

if __name__ == "__main__":
    run()
