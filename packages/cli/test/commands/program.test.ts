import { describe, expect, test } from 'vitest';
import { call } from './call.ts';
import { cliDoc } from './cli-doc.ts';

const VERBS = [
  'ls',
  'show',
  'log',
  'top',
  'runs',
  'diagnose',
  'evidence',
  'doctor',
  'stop',
  'force-release',
  'seal',
  'run',
  'trigger',
  'exec',
  'validate',
  'init',
  'schema',
  'drill',
  'fence',
  'completion',
];

const INNER = ['fence sql', 'fence install', 'fence status', 'fence protect', 'fence prune'];

test('docs/cli.md is the help of every command (repair it with vitest -u)', async () => {
  await expect(
    await cliDoc(VERBS.flatMap((verb) => [verb, ...INNER.filter((inner) => inner.startsWith(`${verb} `))])),
  ).toMatchFileSnapshot('../../../../docs/cli.md');
});

describe('help', () => {
  test('begins with the commands in their groups, each with a line', async () => {
    const { code, stdout, stderr } = await call(['--help'], { columns: 100 });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const order = [
      'Look (read only',
      '  ls [pattern]',
      'Act:',
      '  stop <resource>',
      'Run:',
      '  exec <resource>',
      'Connection:',
      'Examples:',
      'Exit codes:',
    ];
    const places = order.map((text) => stdout.indexOf(text));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
  });

  test('names every command that there is, and no other', async () => {
    const { stdout } = await call(['completion', 'bash']);
    const found = Array.from(stdout.matchAll(/^ {4}([a-z-]+)\) words=/gm), ([, verb]) => verb);
    expect(found).toEqual(VERBS);
  });

  test('of a command has an example', async () => {
    for (const verb of [...VERBS, ...INNER]) {
      const { code, stdout } = await call([...verb.split(' '), '--help']);
      expect(code).toBe(0);
      expect(stdout).toMatch(new RegExp(`Example:\\n {2}\\$ .*leasehold ${verb}`));
    }
  });
});

describe('a wrong command line ends with 2 and says what to type', () => {
  test.each([
    [[], 'Usage: leasehold'],
    [['lss'], 'Did you mean ls?'],
    [['help', 'lss'], 'Did you mean ls?'],
    [['help', 'frob'], "unknown command 'frob'\nTry: leasehold --help"],
    [['completion', 'bash', '--json'], 'no JSON form'],
    [['ls', '--hold'], 'Did you mean --held?'],
    [['show'], "missing required argument 'resource'"],
    [['exec', 'r'], "missing required argument 'command'"],
    [['exec', 'r', 'ls', '-la'], "unknown option '-la'"],
    [['exec', 'r', '--ttl', '30', '--', 'true'], "such as '250ms', '30s' or '5m'"],
    [['exec', 'r', '--tick', '2026-11-30', '--', 'true'], 'an instant such as'],
    [['exec', 'r', '--job', 'j', '--', 'true'], '--job goes with --tick'],
    [['exec', 'r', '-E', '256', '--', 'true'], '0 to 255'],
    [['log', 'r', '-n', '0'], 'a whole number, 1 or more'],
    [['runs'], 'name a job, or a config file'],
    [['log', 'r', '--svg', '--json'], '--svg and --json contradict'],
    [['top'], 'Try: leasehold ls'],
    [['top', '--json'], 'Try: leasehold ls --json'],
    [['trigger'], "missing required argument 'job'"],
    [['trigger', 'j', '--data', '{'], 'is no JSON'],
    [['ls', '-q', '-v'], 'contradict each other'],
    [['stop', 'r'], 'this needs --yes\nTry: leasehold stop r --yes\n'],
    [['stop', 'customer 4', '--url', 'redis://:pw@h'], "Try: leasehold stop 'customer 4' --yes …\n"],
    [['--prefix', 'shop', 'stop', 'r'], 'Try: leasehold stop r --yes …\n'],
    [['fence'], 'Usage: leasehold fence'],
    [['fence', 'instal'], 'Did you mean install?'],
    [['fence', 'sql', '--schema', 'A b'], '1 to 48 of a-z 0-9 _'],
    [['fence', 'sql', '--json'], 'no JSON form'],
    [['fence', 'install'], 'Try: leasehold fence install --yes\n'],
    [['fence', 'status'], 'give --database, or set DATABASE_URL'],
    [['fence', 'status', '-d', 'mysql://u:secret@h/d'], '--database is no address of the form postgres://'],
    [['fence', 'protect', 't'], 'an expression is missing'],
    [['fence', 'protect', 't', 'NEW.id', '--remove'], '--remove takes no expression'],
    [['fence', 'protect', 't', 'NEW.id'], 'Try: leasehold fence protect t NEW.id --yes\n'],
    [['fence', 'prune'], '--older-than'],
    [['fence', 'prune', '--older-than', '23h', '-d', 'postgres://h/d'], 'must be a day or more'],
    [['seal', 'r', '--fence', 'ledger'], "'--reason <text>' not specified"],
    [['seal', 'r', '--reason', 'x', '--yes'], 'no fence is named'],
    [['seal', 'r', '--reason', 'x', '--fence', 'a', '--redis-fence', 'redis://h', '--yes'], 'more than one fence'],
    [['seal', 'r', '--reason', ' ', '--fence', 'a', '--yes'], '--reason is empty'],
    [['seal', 'r', '--reason', 'x', '--fence', 'a', '--token', '1.5', '--yes'], 'a whole number above 0'],
    [['seal', 'r', '--reason', 'x', '--fence', 'a', '--yes'], 'Try: leasehold seal r --config leasehold.yaml …\n'],
    [['show', 'a\nb'], 'contains a control character'],
    [['drill', '--only', 'kil', '--yes'], 'Give some of kill, pause'],
    [['drill', '--repeat', '1001', '--yes'], 'a whole number, 1 to 1000'],
    [['drill', '--fence', 'a', '--fence-module', 'b', '--yes'], "cannot be used with option '--fence-module"],
    [['drill', '--fence', 'a', '--yes'], 'there is no config with fences'],
    [['drill', '--html', '/nowhere/drill.html', '--yes'], '--html /nowhere/drill.html cannot be written'],
    [['drill', '--ttl', '30s'], 'this needs --yes\nTry: leasehold drill --yes …\n'],
    [['completion', 'tcsh'], 'Allowed choices are bash, zsh, fish'],
  ])('%j', async (args, message) => {
    const { code, stdout, stderr } = await call(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});

test.each([
  [['ls', '--json', '--hold'], "unknown option '--hold'", ['(Did you mean --held?)', 'Try: leasehold ls --help']],
  [['lss', '--json'], "unknown command 'lss'", ['(Did you mean ls?)', 'Try: leasehold --help']],
  [['top', '--json'], 'top is a view for people, without JSON', ['Try: leasehold ls --json']],
])('with --json a command line that cannot be is told as an object too: %j', async (args, message, details) => {
  const { code, stdout, stderr } = await call(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(JSON.parse(stderr)).toEqual({ schema: 'leasehold/error/v1', exit: 2, code: 'USAGE', message, details });
});

test('after -- the flag --json is that of another command', async () => {
  const { stderr } = await call(['exec', 'r', '--ttl', '30', '--', 'jq', '--json']);
  expect(stderr).toMatch(/^leasehold: /);
});
