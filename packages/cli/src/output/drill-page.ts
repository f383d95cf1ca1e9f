import type { ProofResult } from '../drill/drill.ts';
import { drillPicture } from './drill-picture.ts';
import { summaryOf, timesText, type DrillAbout } from './drill.ts';
import { drillSvg } from './drill-svg.ts';
import { xml } from './svg.ts';

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; color: #111; background: #fff; max-width: 1040px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2.5em; border-top: 1px solid #ccc; padding-top: 1em }
table { border-collapse: collapse } th, td { text-align: left; padding: 0.25em 1em 0.25em 0; border-bottom: 1px solid #ddd; vertical-align: top }
svg { max-width: 100%; height: auto; border: 1px solid #ccc } pre { white-space: pre-wrap; background: #f6f6f6; padding: 1em }
.proven { color: #005a43; font-weight: bold } .failed { color: #a33b00; font-weight: bold }
`;

/** One page that needs nothing else: the results, and of each proof the run that is worth a look. */
export function drillPage(results: readonly ProofResult[], { target, fence, ttl, began }: DrillAbout): string {
  return [
    '<!doctype html>',
    '<html lang="en" xmlns="http://www.w3.org/1999/xhtml">',
    `<head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/><title>leasehold drill: ${summaryOf(results)}</title><style>${STYLE}</style></head>`,
    '<body>',
    `<h1>leasehold drill: ${summaryOf(results)}</h1>`,
    `<p>${xml(target)}<br/>Leases of ${xml(String(ttl))}. Fence: ${xml(fence)}. ${began.toISOString()}</p>`,
    ...summaryTable(results),
    ...results.flatMap(section),
    '</body>',
    '</html>\n',
  ].join('\n');
}

function summaryTable(results: readonly ProofResult[]): readonly string[] {
  const heads = ['Proof', 'Verdict', 'Runs', 'Abort', 'Takeover', 'Writes', 'Refused', 'What was done'];
  return [
    `<table><thead><tr>${heads.map((head) => `<th>${head}</th>`).join('')}</tr></thead><tbody>`,
    ...results.map(({ proof, verdict, runs, proven, abort, takeover, acceptedWrites, refusedWrites }) => {
      const cells = [
        `${proven} of ${runs}`,
        timesText(abort),
        timesText(takeover),
        acceptedWrites,
        refusedWrites,
        proof.fault,
      ];
      return `<tr><td><a href="#${proof.name}">${proof.name}</a></td><td class="${verdict}">${verdict.toUpperCase()}</td>${cells.map((cell) => `<td>${xml(String(cell))}</td>`).join('')}</tr>`;
    }),
    '</tbody></table>',
  ];
}

function section({ proof, verdict, shown }: ProofResult): readonly string[] {
  const { abortSince } = proof;
  const head = [
    `<h2 id="${proof.name}">${proof.name}: <span class="${verdict}">${verdict.toUpperCase()}</span></h2>`,
    `<p>Done: ${xml(proof.fault)}.<br/>To be shown: ${xml(proof.claim)}.${abortSince === null ? '' : `<br/>The abort is counted from ${xml(abortSince)}.`}</p>`,
  ];
  return [
    ...head,
    drillSvg(shown, proof.name),
    '<ul>',
    ...shown.expectations.map(
      ({ what, isMet, seen }) => `<li>${isMet ? 'yes' : '<b>NO</b>'}: ${xml(what)} (${xml(seen)})</li>`,
    ),
    '</ul>',
    ...(shown.failures.length === 0
      ? []
      : [
          `<pre>${shown.failures
            .flatMap((failure) => failure.split('\n'))
            .map(xml)
            .join('\n')}</pre>`,
        ]),
    `<details><summary>The picture in words</summary><ul>${drillPicture(shown.history)
      .words.map((line) => `<li>${xml(line)}</li>`)
      .join('')}</ul></details>`,
  ];
}
