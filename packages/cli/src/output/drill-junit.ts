import type { ProofResult } from '../drill/drill.ts';
import type { DrillAbout } from './drill.ts';
import { xml } from './svg.ts';

/** JUnit XML: a case for each proof, its time that of all its runs. */
export function drillJunit(results: readonly ProofResult[], { target, fence, ttl, began }: DrillAbout): string {
  const failures = results.filter(({ verdict }) => verdict === 'failed').length;
  const seconds = (ms: number): string => (ms / 1000).toFixed(3);
  const total = seconds(results.reduce((sum, { tookMs }) => sum + tookMs, 0));
  const counts = `tests="${results.length}" failures="${failures}" errors="0" skipped="0" time="${total}"`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="leasehold drill" ${counts}>`,
    `<testsuite name="leasehold drill" ${counts} timestamp="${began.toISOString()}">`,
    `<properties><property name="target" value="${xml(target)}"/><property name="fence" value="${xml(fence)}"/><property name="ttl" value="${xml(String(ttl))}"/></properties>`,
    ...results.map((result) => caseOf(result, seconds(result.tookMs))),
    '</testsuite>',
    '</testsuites>\n',
  ].join('\n');
}

function caseOf({ proof, verdict, why, shown }: ProofResult, time: string): string {
  const head = `<testcase classname="leasehold.drill" name="${xml(`${proof.name}: ${proof.claim}`)}" time="${time}">`;
  if (verdict === 'proven') return `${head}</testcase>`;
  const message = xml(why.split('\n')[0] ?? '');
  const lines = shown.failures.flatMap((failure) => failure.split('\n')).map(xml);
  return `${head}<failure message="${message}">${lines.join('\n')}</failure></testcase>`;
}
