import { simulateSeed } from './run.ts';
import { faultsOf, Names } from './report.ts';
import { seededBugs } from './bugs.ts';
const [from, n, bugName, stop] = process.argv.slice(2);
const bug = bugName && bugName !== '-' ? seededBugs.find(({ does }) => does.includes(bugName)) : undefined;
if (bugName && bugName !== '-' && !bug) throw new Error('no bug');
const t0 = Date.now();
const rules = new Map<string, number>();
let shown = 0;
for (let seed = Number(from); seed < Number(from) + Number(n); seed++) {
  const run = await simulateSeed(seed, bug);
  const faults = faultsOf(run);
  for (const f of faults) rules.set(f, (rules.get(f) ?? 0) + 1);
  if (faults.length && shown < 12) {
    const names = new Names();
    console.log(`seed ${seed}: ${faults}`);
    if (!bug || stop)
      for (const m of [...run.problems, ...run.verdict.findings.map(({ message }) => message)].slice(0, 2))
        console.log(names.in(m).slice(0, 1200));
    shown++;
  }
  if (bug && faults.includes(bug.foundBy) && stop !== 'all') break;
}
console.log(`${bug?.does ?? ''} from ${from}:`, Object.fromEntries(rules), Date.now() - t0, 'ms');
