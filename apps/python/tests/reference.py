"""The reference of the package, from its docstrings: python reference.py FILE [--save]. Without --save it has to be up to date."""

import inspect
import re
import sys
from pathlib import Path

import flashlab
from flashlab._plot import RunPlots, SweepPlots


def text(thing):
    return inspect.cleandoc(thing.__doc__ or "")


def signature(name, thing):
    try:
        shown = f"{name}{inspect.signature(thing)}".replace("(self, ", "(").replace("(self)", "()")
        # Annotations are texts, and are shown in quotes.
        shown = re.sub(r'(: |-> )"([^"]*)"', r"\1\2", shown)
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)
    except (TypeError, ValueError):
        return name


def of_class(name, thing):
    is_error = issubclass(thing, Exception)
    parts = [f"## {name}\n", "" if is_error else f"    {signature(name, thing)}\n", text(thing) + "\n"]
    for member, value in sorted(vars(thing).items()):
        is_method = callable(value) or isinstance(value, staticmethod)
        if member.startswith("_") or is_error or not (is_method or inspect.isdatadescriptor(value)) or not text(value):
            continue
        shown = signature(f".{member}", getattr(thing, member)) if is_method else f".{member}"
        parts.append(f"### {name}.{member}\n\n    {shown}\n\n{text(value)}\n")
    return parts


def reference():
    parts = [
        "# The functions and classes of flashlab for Python\n",
        "Made of the docstrings by `python apps/python/tests/reference.py docs/python-reference.md --save`; a test compares it. "
        "[python.md](python.md) explains how they belong together.\n",
    ]
    names = [(name, getattr(flashlab, name)) for name in flashlab.__all__ if not name.startswith("_")]
    for name, thing in sorted(names, key=lambda one: (inspect.isclass(one[1]), one[0])):
        if inspect.isclass(thing):
            parts += of_class(name, thing)
        else:
            parts.append(f"## {name}\n\n    {signature(name, thing)}\n\n{text(thing)}\n")
    for name, thing in (("run.plot", RunPlots), ("sweep.plot", SweepPlots)):
        parts += of_class(name, thing)
    lines = "\n".join(part for part in parts if part).split("\n")
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    file, made = Path(sys.argv[1]), reference()
    if "--save" in sys.argv:
        file.write_text(made)
    else:
        assert file.read_text() == made, f"{file} is not up to date: run this with --save"
