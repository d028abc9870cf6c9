"""``tbparse schema``: the contract of the JSON answer, or of a rule file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tbparse.cli.terminal import guarded, write

Rules = Annotated[bool, typer.Option("--rules", help="The shape of a rule file instead, for editors that complete and check YAML.")]


def schema(rules: Rules = False) -> None:
    """Print the JSON Schema of the answer."""
    with guarded():
        import json

        data = rule_schema() if rules else answer_schema()
        write(json.dumps(data, indent=2, ensure_ascii=False) + "\n", data=True)


def answer_schema() -> dict[str, Any]:
    """The JSON Schema of the answer; ``tbparse/rootcause.schema.json`` holds the same."""
    from tbparse.model import json_schema

    return json_schema()


def rule_schema() -> dict[str, Any]:
    """The JSON Schema of ``rules/<area>/<rule>.yaml``."""
    from tbparse.ruleset.schema import Rule

    data = Rule.model_json_schema(by_alias=True)
    data["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return data


def site_schema() -> dict[str, Any]:
    """The JSON Schema of a site file."""
    from tbparse.ruleset.schema import SiteFile

    data = SiteFile.model_json_schema(by_alias=True)
    data["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return data
