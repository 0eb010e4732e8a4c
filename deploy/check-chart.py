"""Renders the chart that `counterstep deploy chart` has written, and compares its objects with the manifests that it was made of.

Knows what the chart uses of Helm: values, `if`, `else` and `range`; all else fails. Helm itself is not at hand.
Usage: check-chart.py CHART MANIFESTS OUT - the objects of Kubernetes' own kinds go to OUT, for their schemas.
"""
import pathlib
import re
import sys

import yaml

ACTION = re.compile(r"(\s*)\{\{-\s*(.*?)\s*\}\}|\{\{\s*(.*?)\s*\}\}")


def tokens(text):
    """Texts and actions in turn; `{{-` takes the spaces and the line's end before it away."""
    at = 0
    for found in ACTION.finditer(text):
        yield False, text[at:found.start()]
        yield True, found.group(2) if found.group(3) is None else found.group(3)
        at = found.end()
    yield False, text[at:]


def parse(left):
    """The parts up to an `else` or an `end`, and which of the two ended them."""
    parts = []
    for is_action, text in left:
        words = text.split(" ")
        if not is_action:
            parts.append(("text", text))
        elif words[0] in ("else", "end"):
            return parts, words[0]
        elif words[0] in ("if", "range") and len(words) == 2:
            then, ended = parse(left)
            otherwise = parse(left)[0] if ended == "else" else []
            parts.append((words[0], words[1], then, otherwise))
        elif len(words) == 1 and words[0][:1] in (".", "$"):
            parts.append(("print", words[0]))
        else:
            raise SystemExit(f"`{text}` is more than values, `if` and `range`")
    return parts, None


def value(path, values, dot):
    if path == ".":
        return dot[0]
    # Within a range the dot is another one.
    start = "$.Values." if dot else ".Values."
    if not path.startswith(start):
        raise SystemExit(f"{path} does not begin with {start}")
    for name in path[len(start):].split("."):
        values = values[name]
    return values


def rendered(parts, values, dot=()):
    made = ""
    for kind, what, *rest in parts:
        if kind == "text":
            made += what
        elif kind == "print":
            made += str(value(what, values, dot))
        elif kind == "if":
            made += rendered(rest[0] if value(what, values, dot) else rest[1], values, dot)
        else:
            made += "".join(rendered(rest[0], values, (one,)) for one in value(what, values, dot))
    return made


def objects(text):
    # A list that a range has written ends with a comma.
    return [one for one in yaml.safe_load_all(text.replace(", ]", "]")) if one]


def without_marks(manifest):
    """What a reader sees of it: the marks stand in texts of the settings too."""
    marks = ("# value ", "# chart: ", "# chart instead: ", "# chart triggers ")
    return "".join(line for line in manifest.splitlines(True) if not line.lstrip().startswith(marks))


def with_images(one, version):
    """As kustomize and the values give them."""
    if isinstance(one, dict):
        image = one.get("image")
        if isinstance(image, str) and image.startswith("counterstep"):
            one["image"] = f"ghcr.io/counterstep/{image}:{version}"
    for below in one.values() if isinstance(one, dict) else one if isinstance(one, list) else ():
        with_images(below, version)


def main():
    chart, manifests, out = (pathlib.Path(name) for name in sys.argv[1:])
    values = yaml.safe_load((chart / "values.yaml").read_text())
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["version"]
    # Of the manifests, so that all of them are compared.
    values["video"]["enabled"] = True
    of_kubernetes, compared = [], 0
    for template in sorted((chart / "templates").iterdir()):
        parts, ended = parse(tokens(template.read_text()))
        if ended:
            raise SystemExit(f"{template}: `{ended}` ends nothing")
        made = objects(rendered(parts, values))
        of_kubernetes += [one for one in made if "keda" not in one["apiVersion"]]
        if template.name == "roles.yaml":
            continue
        # Hooks are Helm's own.
        for one in made:
            one["metadata"].pop("annotations", None)
        expected = objects(without_marks((manifests / template.name).read_text()))
        with_images(expected, version)
        if made != expected:
            raise SystemExit(f"{template.name}: with its defaults the chart is not the manifest")
        compared += len(made)
    if compared < 10:
        raise SystemExit(f"only {compared} objects were compared")
    out.write_text(yaml.safe_dump_all(of_kubernetes))
    print(f"{compared} objects are those of the manifests")


main()
