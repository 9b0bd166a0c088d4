"""`python -m flintlog.testing`: explore a suite, race, spoil, live, or reproduce one line of a failure."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import count

from flintlog.errors import EXIT_OK, EXIT_REFUSED, FlintlogError, UsageError
from flintlog.testing import stores
from flintlog.testing.damage import DamageReport, explore_damage, spoil_again
from flintlog.testing.explore import explore_suite, merged, prove_syncs
from flintlog.testing.faults import inject_everywhere
from flintlog.testing.life import LifeReport, live, subjects_at
from flintlog.testing.oracle import Suite
from flintlog.testing.races import RaceReport, Subject, explore_races, race_again
from flintlog.testing.reproduce import reproduce

OWN_STORES = "flintlog.testing.stores:SUBJECTS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when every promise holds."""
    options = _parser().parse_args(arguments)
    sys.path.insert(0, "")  # so that it finds the suites of the project in which it is run
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
    raced = verbs.add_parser("races", help="make every pair and triple of a store's calls at the same time")
    _subject_options(raced)
    raced.add_argument("--seeds", type=int, default=3, metavar="N", help="how often each (3)")
    raced.add_argument("--line", help="race one line of a failure again, such as queues:add+close:seed=17")
    raced.set_defaults(act=_races)
    spoiled = verbs.add_parser("damage", help="spoil directories, and ask every verb what it makes of them")
    _subject_options(spoiled)
    spoiled.add_argument(
        "--seeds", type=int, default=100, metavar="N", help="directories of each subject (100)"
    )
    spoiled.add_argument("--line", help="spoil the directory of one line of a failure again")
    spoiled.set_defaults(act=_damage)
    lived = verbs.add_parser("life", help="let stores live: threads, signals, forks, closing, kills")
    _subject_options(lived)
    lived.add_argument("--seconds", type=float, default=60.0, metavar="S", help="for how long in all (60)")
    lived.add_argument("--seed", type=int, default=0, metavar="N", help="of the first life (0)")
    lived.set_defaults(act=_lives)
    reproduced = verbs.add_parser("reproduce", help="make one image or fault again, and tell what happens")
    reproduced.add_argument("target", help="package.module:NAME of a Suite")
    reproduced.add_argument("line", help="such as append:call=17:data=torn[16]@133:names=kept")
    reproduced.add_argument("--elide", metavar="SITE", help="take away the syncs of this site")
    reproduced.add_argument("--to", metavar="DIR", help="write the image to this new directory")
    reproduced.set_defaults(act=_reproduce)
    return parser


def _subject_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", default=OWN_STORES, help=f"package.module:NAME of a tuple of Subjects ({OWN_STORES})"
    )
    parser.add_argument(
        "--subject", action="append", metavar="NAME", help="only this one; may be given again"
    )


def _subjects(options: argparse.Namespace) -> list[Subject]:
    found = subjects_at(options.target)
    known = [subject.name for subject in found]
    for name in options.subject or ():
        if name not in known:
            raise UsageError(f"there is no subject {name!r}", advice=f"Known: {', '.join(known)}")
    return [subject for subject in found if not options.subject or subject.name in options.subject]


def _races(options: argparse.Namespace) -> bool:
    if options.line is not None:
        wrong = race_again(_subjects(options), options.line)
        print(wrong or "nothing went wrong")
        return wrong is None
    return _told((each, explore_races(each, seeds=range(options.seeds))) for each in _subjects(options))


def _damage(options: argparse.Namespace) -> bool:
    if options.line is not None:
        wrong = spoil_again(_subjects(options), options.line)
        print("\n".join(wrong) or "nothing is wrong")
        return not wrong
    return _told((each, explore_damage(each, seeds=range(options.seeds))) for each in _subjects(options))


def _lives(options: argparse.Namespace) -> bool:
    subjects = _subjects(options)
    look = stores.look if options.target == OWN_STORES else None

    def lived(subject: Subject) -> LifeReport:
        until = time.monotonic() + options.seconds / len(subjects)
        return live(options.target, subject, seeds=count(options.seed), until=until, look=look)

    return _told((subject, lived(subject)) for subject in subjects)


def _told(reports: Iterable[tuple[Subject, DamageReport | LifeReport | RaceReport]]) -> bool:
    """Print each report as it comes."""
    holds = True
    for subject, report in reports:
        print(f"{subject.name}: {report}", *report.violations, sep="\n", flush=True)
        holds &= not report.violations
    return holds


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
            f"{proof.site}: {'missed by ' + proof.violation.line if proof.violation else 'NO SCENARIO MISSES IT'}"
        )
    return all(proof.violation is not None for proof in proofs)


def _reproduce(options: argparse.Namespace) -> bool:
    return reproduce(Suite.load(options.target), options.line, elide=options.elide, to=options.to) is None


if __name__ == "__main__":
    sys.exit(main())
