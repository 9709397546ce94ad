"""Runs the checks of a file: its functions whose names begin with `check_`."""

import asyncio
import sys
import traceback


def run(names: dict) -> int:
    """Runs every check among `names`, prints how each ended, and returns the exit status."""
    checks = [check for name, check in names.items() if name.startswith("check_")]
    failed = 0
    for check in checks:
        try:
            outcome = check()
            if asyncio.iscoroutine(outcome):
                asyncio.run(outcome)
            print("ok    ", check.__name__)
        except Exception:
            failed += 1
            print("FAILED", check.__name__)
            traceback.print_exc(file=sys.stdout)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return min(failed, 1)
