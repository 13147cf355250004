"""Ends a test's program with a line "N passed, N failed": for unittest's tests, or for checks that need no class."""

import unittest

_passed = 0
_failures = []


def check(condition, message):
    """Counts a check, whose message is printed at the end if it does not hold."""
    global _passed
    if condition:
        _passed += 1
    else:
        _failures.append(message)


def end_of_checks(most=20):
    """Prints what did not hold. The exit code: 0 only if something was checked, and all of it held."""
    for failure in _failures[:most]:
        print(failure)
    print(f"{_passed} passed, {len(_failures)} failed", flush=True)
    return 1 if _failures or not _passed else 0


def main():
    """Runs unittest's tests of the program. The exit code: 0 only if some test ran, and none failed or was skipped."""
    result = unittest.main(exit=False).result
    failed = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    skipped = len(result.skipped)
    # A class that cannot be set up counts as one failure, though no test of it has run.
    passed = max(0, result.testsRun - len(failed) - skipped)
    summary = f"{passed} passed, {len(failed)} failed"
    print(summary + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 0 if result.wasSuccessful() and passed and not skipped else 1
