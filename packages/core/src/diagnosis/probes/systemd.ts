import { type OwnerIdentity, ownerIdentity } from '../../owner.ts';
import type { OwnerProbe } from '../probe.ts';
import { unitByHand } from './by-hand.ts';
import { factsOf, type OwnerFacts } from './facts.ts';
import { ask, found, isAnswer, refused, type ToolOptions } from './tool.ts';
import { answer, gone, plain, type Answer } from './words.ts';

const PROPERTIES = 'LoadState,ActiveState,SubState,MainPID,InvocationID,ControlGroup,KillMode,FreezerState';

/**
 * Asks `systemctl show` for the unit that the owner ran in. Undefined for owners without one. Units are known by name, so
 * the answer counts only in the same boot of the same machine.
 *
 * Tested with answers in the form that systemd documents, not against a running one.
 */
export function systemd(options: ToolOptions = {}): OwnerProbe {
  return systemdAs(ownerIdentity(), options);
}

/** For tests: this process as `here`. */
export function systemdAs(here: OwnerIdentity, options: ToolOptions): OwnerProbe {
  const command = options.command ?? 'systemctl';
  return {
    name: 'systemd',
    async probe(owner, { signal }) {
      const facts = factsOf(owner);
      const { unit } = facts;
      if (unit === undefined) return undefined;
      const { bootId, machineId, host } = factsOf(here);
      const isHere =
        bootId !== undefined && bootId === facts.bootId && machineId === facts.machineId && host === facts.host;
      const said = isHere
        ? await show(command, unit, facts, signal)
        : answer(
            'unverifiable',
            `unit ${unit} is that of another boot or host (${facts.host ?? 'without a usable name'})`,
          );
      return found('systemd', said, unitByHand(facts));
    },
  };
}

async function show(command: string, unit: string, owner: OwnerFacts, signal: AbortSignal): Promise<Answer> {
  const reply = await ask(command, ['show', `--property=${PROPERTIES}`, '--', unit], signal);
  if (isAnswer(reply)) return reply;
  if (reply.exitCode !== 0) return refused(command, reply);
  const properties = new Map(
    reply.stdout.split('\n').map((line) => {
      const at = line.indexOf('=');
      return [line.slice(0, at), line.slice(at + 1)] as const;
    }),
  );
  return judge(unit, owner, (name) => properties.get(name) ?? '');
}

function judge(unit: string, owner: OwnerFacts, of: (property: string) => string): Answer {
  const active = of('ActiveState');
  // What was made for one run (`systemd-run`) is forgotten when it has ended; what never was is not known either.
  if (of('LoadState') !== 'loaded') return answer('unverifiable', `systemd knows no unit ${unit} (any more)`);
  if (active === 'inactive' || active === 'failed') {
    // With KillMode=process, or none, others than the main process outlive the unit, in its cgroup.
    if (of('ControlGroup') !== '')
      return answer('unverifiable', `unit ${unit} is ${active}, but its cgroup still exists`);
    return gone(`unit ${unit} is ${active} (${plain(of('SubState'))}) and nothing is left of its cgroup`);
  }
  if (owner.invocation === undefined) {
    return answer('unverifiable', `unit ${unit} is ${plain(active)}; in which start of it the owner ran is not known`);
  }
  if (of('InvocationID') !== owner.invocation) {
    const left = /^(control-group|mixed)$/.test(of('KillMode')) ? undefined : of('KillMode');
    return left === undefined
      ? gone(`unit ${unit} has been started again since`)
      : answer(
          'unverifiable',
          `unit ${unit} has been started again since, but leaves processes behind (KillMode=${plain(left)})`,
        );
  }
  if (owner.pid === undefined || of('MainPID') !== String(owner.pid)) {
    return answer(
      'unverifiable',
      `unit ${unit} is ${plain(active)}, in the same start, but its main process is another`,
    );
  }
  return of('FreezerState') === 'frozen'
    ? answer('stopped', `unit ${unit} is frozen`, 'it goes on where it stood on systemctl thaw')
    : answer('alive', `unit ${unit} is ${plain(active)} and process ${owner.pid} is its main one, in the same start`);
}
