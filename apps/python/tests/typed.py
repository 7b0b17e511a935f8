"""A user's program, which mypy --strict accepts."""

from concurrent.futures import ThreadPoolExecutor
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
    sweep = flashlab.sweep(
        "tlc-sata",
        {"flash.over_provisioning": [0.07, 0.28]},
        workloads=["baselines/RW"],
        seeds=range(5),
        sample=("sobol", 1),
        on=ThreadPoolExecutor(2),
        output=Path("sweep"),
    )
    best: flashlab.Table = sweep.pareto(minimise=["write_amplification"])
    flashlab.pareto(best, maximise=["write_iops"]).write_parquet(Path("best.parquet"))
    found: flashlab.Inference = flashlab.infer("sim:sdcard", only=["erase_block_size"])
    confidence: float = found["erase_block_size"].confidence
    predicted = flashlab.fit(flashlab.bench("sim:zeus")).predict(mode="rr", size="16KiB", depth=8)
    print(confidence, predicted.p50_us_interval)
    opened = flashlab.open(Path("run"))
    opened.compare(flashlab.open("other"))
    try:
        sim.run({"version": 1})
    except flashlab.InputError as error:
        code: int = error.exit_code
        print(code, names)
    return run.write_amplification
