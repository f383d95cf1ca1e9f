import { relative } from 'node:path';

/**
 * @typedef {{ status: string, fullName: string }} Assertion
 * @typedef {{ name: string, status: string, message?: string, assertionResults: Assertion[] }} TestFile
 *
 * Counts what vitest's json report says. What failed outside of any test (a file that does not load, an unhandled
 * rejection, no report at all) counts as one failure, so that the numbers never look better than the exit code.
 *
 * @param {{ testResults: TestFile[] } | null} report
 * @param {number} exitCode
 * @param {string} root
 */
export function summarize(report, exitCode, root) {
  let passed = 0;
  let failed = 0;
  /** @type {string[]} */
  const notRun = [];
  /** @type {string[]} */
  const remarks = [];
  for (const file of report?.testResults ?? []) {
    const path = relative(root, file.name);
    let failedHere = 0;
    for (const { status, fullName } of file.assertionResults) {
      if (status === 'passed') passed++;
      else if (status === 'failed') failedHere++;
      else notRun.push(`${path}: ${fullName}`);
    }
    if (failedHere === 0 && file.status === 'failed') {
      failedHere = 1;
      remarks.push(`${path} failed outside of its tests.`);
    }
    failed += failedHere;
  }
  if (exitCode !== 0 && failed === 0) {
    failed = 1;
    remarks.push(
      report === null ? 'The tests ended without a report.' : 'Something outside of the tests failed; see above.',
    );
  }
  if (exitCode === 0 && passed + failed === 0) remarks.push('No test was run.');
  return { passed, failed, notRun, remarks };
}
