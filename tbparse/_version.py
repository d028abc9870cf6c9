"""The version of the distribution ``tbparse-triage`` (read by the build)."""

__version__ = "0.1.0"
