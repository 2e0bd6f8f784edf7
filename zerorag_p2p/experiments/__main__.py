"""`python -m zerorag_p2p.experiments`: run an experiment, print or store what came of it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from zerorag_p2p.errors import ZeroRagError
from zerorag_p2p.experiments.experiment import EXPERIMENTS
from zerorag_p2p.experiments.run import SCALES, WORLDS, run
from zerorag_p2p.experiments.store import store_result
from zerorag_p2p.experiments.summary import describe


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0, or the exit code of the error that ended it."""
    parser = argparse.ArgumentParser(prog="python -m zerorag_p2p.experiments", description=__doc__)
    parser.add_argument("name", choices=sorted(EXPERIMENTS))
    parser.add_argument("--scale", choices=sorted(SCALES), default="laptop")
    parser.add_argument("--seeds", type=int, default=1, help="number of runs of each variant")
    parser.add_argument("--world", choices=sorted(WORLDS), default="simulator")
    parser.add_argument("--variants", default="", metavar="PREFIX", help="run only some variants")
    parser.add_argument("--pubmedqa", type=Path, metavar="FOLDER", help="where PubMedQA is")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="store result and figure there")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    try:
        result = run(
            options.name,
            scale=options.scale,
            seeds=options.seeds,
            workload_folder=options.pubmedqa,
            world=options.world,
            variants=options.variants,
            on_progress=_show if sys.stderr.isatty() else None,
        )
        if options.out is not None:
            store_result(result, options.out)
    except ZeroRagError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    text = json.dumps(result, indent=1) if options.json else describe(result)
    sys.stdout.write(f"{text}\n")
    return 0


def _show(variant: str, seed: int, done: int, total: int) -> None:
    if done % 1_000 == 0 or done == total:
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{variant}, seed {seed}: {done} of {total} questions {end}")


if __name__ == "__main__":
    sys.exit(main())
