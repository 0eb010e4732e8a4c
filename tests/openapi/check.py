"""Checks an OpenAPI document, `check.py FILE`: that it is OpenAPI 3.1, and that each example is what its schema says."""

import json
import sys

import jsonschema_rs
from openapi_spec_validator import OpenAPIV31SpecValidator


def contents(document):
    """Each schema that has an example, with where it stands."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            at = f"{method.upper()} {path}"
            for parameter in operation["parameters"]:
                yield f"{at}: {parameter['name']}", parameter
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                body = document["components"]["responses"].get(body.get("$ref", "").split("/")[-1], body)
                for media_type, content in body.get("content", {}).items():
                    yield f"{at}: {media_type}", content


def main(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    found = [f"{list(error.absolute_path)}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()]
    count = 0
    for at, content in contents(document):
        if "schema" not in content:
            continue
        validator = jsonschema_rs.Draft202012Validator(
            {**content["schema"], "components": document["components"]}, validate_formats=True
        )
        examples = [content["example"]] if "example" in content else []
        examples += [example["value"] for example in content.get("examples", {}).values()]
        for example in examples:
            count += 1
            found += [f"{at}: {error.message}" for error in validator.iter_errors(example)]
    print("\n".join(found) if found else f"{count} examples fit their schemas")
    return 1 if found else 0


sys.exit(main(sys.argv[1]))
