"""CEL validation rules of a custom resource schema (`x-kubernetes-validations`): compiled once, evaluated on every
write.

`rules_of(schema)` returns None for a schema without rules. `rules.check(obj, old, schema_causes, warnings)` returns the
causes.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.celvalidation.compiled_rules import RuleNode, build_rule_tree
from shoal.objects.celvalidation.evaluator import validate_rules
from shoal.objects.errors import Cause


class CELRules:
    def __init__(self, root: RuleNode) -> None:
        self._root = root

    def check(
        self,
        obj: Any,
        old: Any | None,
        schema_causes: list[Cause],
        warnings: list[str] | None = None,
        *,
        in_loop: bool = False,
    ) -> list[Cause]:
        """Returns the causes of an object for which schema validation returned `schema_causes`. Failures that pass by
        ratcheting are appended to `warnings`. Raises TooCostlyForLoopError if `in_loop`.
        """
        return validate_rules(self._root, obj, old, schema_causes, warnings, in_loop=in_loop)


def rules_of(schema: dict[str, Any]) -> CELRules | None:
    """Returns the rules of a whole resource's schema."""
    root = build_rule_tree(schema)
    return None if root is None else CELRules(root)
