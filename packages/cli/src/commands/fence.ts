import type { Command } from 'commander';
import { addFenceInstall, addFenceSql } from './fence-install.ts';
import { addFenceProtect } from './fence-protect.ts';
import { addFencePrune } from './fence-prune.ts';
import { addFenceStatus } from './fence-status.ts';
import { withOutputFlags } from './flags.ts';
import type { Session } from './session.ts';

const ACTIONS = [
  { add: addFenceSql, example: 'leasehold fence sql > migrations/0001-fence.sql' },
  { add: addFenceInstall, example: 'leasehold fence install -d postgres://app@db-3:5432/shop' },
  { add: addFenceStatus, example: 'leasehold fence status -d postgres://app@db-3:5432/shop' },
  { add: addFenceProtect, example: `leasehold fence protect accounts "'shop/account:' || NEW.id"` },
  { add: addFencePrune, example: 'leasehold fence prune --older-than 90d' },
] as const;

export function addFence(program: Command, session: Session): Command {
  const fence = program
    .command('fence')
    .summary('the fence in a PostgreSQL database: install it, look at it, protect tables')
    .description(
      'A fence refuses the writes of an owner that comes too late: it keeps the highest token of each resource, in the database of the data, and looks at it in the transaction of the write. Install it once, name it in the config, or write with postgresFence(pool); then status, protect and prune look after it.',
    )
    .helpCommand(false);
  for (const { add, example } of ACTIONS) {
    const command = add(fence, session);
    withOutputFlags(command)
      .showHelpAfterError(`Try: leasehold fence ${command.name()} --help`)
      .addHelpText('after', `\nExample:\n  $ ${example}`);
  }
  return fence;
}
