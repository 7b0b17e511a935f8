"""Executes a notebook, cell after cell in one namespace: python notebooks.py FILE [--save]

With --save, what the cells print and draw is written into the notebook. Jupyter is not needed: it would bring 80 packages and a second process
for what is a loop here. The notebooks use no magic words.
"""

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def outputs(text):
    """What a cell printed and drew, as a notebook keeps it."""
    found = [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=90)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["a figure"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    plt.close("all")
    return found


def execute(path, save):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4, path
    namespace, figures, count = {"__name__": "__main__"}, 0, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"{path.name}, cell {count}", "exec"), namespace)
        made = outputs(printed.getvalue())
        figures += sum("data" in one for one in made)
        if save:
            cell["execution_count"], cell["outputs"] = count, made
    assert figures > 0, "a notebook without a picture"
    if save:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    file = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        execute(file, "--save" in sys.argv)
        os.chdir("/")
