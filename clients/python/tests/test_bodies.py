"""The declared bodies, compared with the OpenAPI document of the repository: the same keys, of the same kinds, and
required only where the document says so."""

import dataclasses
import json
import pathlib
import typing
import unittest

from counterstep_client import bodies

DOCUMENT = pathlib.Path(__file__).parents[3] / "docs" / "openapi.json"
SCHEMAS = json.loads(DOCUMENT.read_text(encoding="utf-8"))["components"]["schemas"]

#: The names of those that the document calls differently.
NAMES = {"AuditEntry": "AuditView", "TaskProgress": "Progress"}


def resolved(schema):
    """What a schema is, behind its references and apart from null."""
    if schema is True:
        return {}
    if "$ref" in schema:
        return resolved(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]])
    some = [it for it in schema.get("anyOf", schema.get("oneOf", [])) if it.get("type") != "null"]
    return resolved(some[0]) if some and "type" not in schema else schema


def kind_of_schema(schema):
    found = resolved(schema)
    kind = found.get("type")
    if isinstance(kind, list):
        kind = next(it for it in kind if it != "null")
    if kind is None:
        return "string" if "enum" in found or "const" in found else "any"
    return kind


def kind_of_type(hint):
    plain = {str: "string", int: "integer", bool: "boolean", typing.Any: "any"}
    if hint in plain:
        return plain[hint]
    return "array" if typing.get_origin(hint) is list else "object"


def declared():
    """Each body by its name: the kinds of its keys, and those that it requires."""
    for name, body in vars(bodies).items():
        if typing.is_typeddict(body) if hasattr(typing, "is_typeddict") else hasattr(body, "__total__"):
            if not name.startswith("_"):
                yield name, typing.get_type_hints(body), body.__required_keys__


class Bodies(unittest.TestCase):
    def test_each_has_the_keys_of_the_document(self):
        seen = set()
        for name, hints, required in declared():
            with self.subTest(name):
                schema = SCHEMAS[NAMES.get(name, name)]
                self.assertEqual(sorted(hints), sorted(schema["properties"]))
                self.assertLessEqual(set(required), set(schema["required"]))
                for key, hint in hints.items():
                    self.assertEqual(kind_of_type(hint), kind_of_schema(schema["properties"][key]), key)
            seen.add(name)
        self.assertLessEqual({"TaskView", "StepView", "AuditTrail", "AuditEntry", "TaskSummary"}, seen)

    def test_an_accepted_submission_and_the_data_of_events_do_too(self):
        accepted = {field.name for field in dataclasses.fields(bodies.Accepted)}
        self.assertEqual(accepted - {"replayed"}, set(SCHEMAS["Accepted"]["properties"]))
        entry = set(typing.get_type_hints(bodies.AuditEntry)) | {"status"}
        self.assertEqual(entry, set(SCHEMAS["AuditEvent"]["properties"]))
        self.assertEqual({"steps"}, set(SCHEMAS["ProgressEvent"]["properties"]))


if __name__ == "__main__":
    unittest.main()
