"""Runs the tests of the program that calls it, and ends with a line "N passed, N failed"."""

import unittest


def main():
    """The exit code: 0 only if some test ran, and none failed or was skipped."""
    result = unittest.main(exit=False).result
    failed = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    skipped = len(result.skipped)
    # A class that cannot be set up counts as one failure, though no test of it has run.
    passed = max(0, result.testsRun - len(failed) - skipped)
    summary = f"{passed} passed, {len(failed)} failed"
    print(summary + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 0 if result.wasSuccessful() and passed and not skipped else 1
