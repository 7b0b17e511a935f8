"""A user's program, which mypy --strict accepts."""

from pathlib import Path

import flashlab


def main() -> float | None:
    sim = flashlab.Simulator("tlc-sata", seed=1, capacity="1GiB")
    sim.precondition("steady")
    run: flashlab.Simulation = sim.run("granularity")
    samples: flashlab.Samples = run.samples()
    flashlab.Table(samples)
    results = flashlab.evaluate({"profile": ["tlc-sata"], "workload": ["baselines/RW"]}, threads=2)
    names: list[str] = results.columns
    opened = flashlab.open(Path("run"))
    opened.compare(flashlab.open("other"))
    try:
        sim.run({"version": 1})
    except flashlab.InputError as error:
        code: int = error.exit_code
        print(code, names)
    return run.write_amplification
