"""`python -m flintlog.testing`: explore a suite with totals, or reproduce one line of a failure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from flintlog.errors import EXIT_OK, EXIT_REFUSED, FlintlogError
from flintlog.testing.explore import explore_suite, merged, prove_syncs
from flintlog.testing.faults import inject_everywhere
from flintlog.testing.oracle import Suite
from flintlog.testing.reproduce import reproduce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when every promise holds."""
    options = _parser().parse_args(arguments)
    sys.path.insert(0, "")  # the suites of a project are found from where it is run
    try:
        holds: bool = options.act(options)
    except FlintlogError as error:
        print(f"flintlog.testing: {error}", file=sys.stderr)
        return error.exit_status
    return EXIT_OK if holds else EXIT_REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m flintlog.testing", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    explored = verbs.add_parser(
        "explore", help="recover every crash image of every scenario, fail every call"
    )
    explored.add_argument("target", help="package.module:NAME of a Suite")
    explored.add_argument("--processes", type=int, default=1)
    explored.add_argument("--syncs", action="store_true", help="also prove that every sync is needed")
    explored.set_defaults(act=_explore)
    reproduced = verbs.add_parser("reproduce", help="make one image or fault again, and tell what happens")
    reproduced.add_argument("target", help="package.module:NAME of a Suite")
    reproduced.add_argument("line", help="such as append:call=17:data=torn[16]@133:names=kept")
    reproduced.add_argument("--elide", metavar="SITE", help="take away the syncs of this site")
    reproduced.add_argument("--to", metavar="DIR", help="write the image to this new directory")
    reproduced.set_defaults(act=_reproduce)
    return parser


def _explore(options: argparse.Namespace) -> bool:
    suite = Suite.load(options.target)
    reports = explore_suite(suite, processes=options.processes)
    total = merged(reports)
    for report in reports:
        print(report)
    print(f"total: {total}")
    print(total.explain(suite.target), end="\n" if total.violations else "")
    holds = not total.violations
    for scenario in suite.scenarios:
        faults = inject_everywhere(scenario, suite.oracle)
        print(faults)
        print(faults.explain(suite.target), end="\n" if faults.violations else "")
        holds = holds and not faults.violations
    return (_prove(suite, options.processes) if options.syncs else True) and holds


def _prove(suite: Suite, processes: int) -> bool:
    proofs = prove_syncs(suite, processes=processes)
    for proof in proofs:
        print(
            f"{proof.site}: {'missed by ' + proof.violation.line if proof.violation else 'NOBODY MISSES IT'}"
        )
    return all(proof.violation is not None for proof in proofs)


def _reproduce(options: argparse.Namespace) -> bool:
    return reproduce(Suite.load(options.target), options.line, elide=options.elide, to=options.to) is None


if __name__ == "__main__":
    sys.exit(main())
