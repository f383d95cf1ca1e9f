/** Whether the user of the connection may do what owners, and people who look, have to. */

import type { Reading } from '../../store/reading.ts';
import type { StoreRights } from '../../store/survey.ts';
import { check, type Finding } from './finding.ts';

const SMALLEST = 'the smallest ACL is below';

export function checkRights(rights: Reading<StoreRights>): readonly Finding[] {
  const its = check('rights', '');
  if (!rights.known) {
    return [
      rights.why === 'not-permitted'
        ? its.error(`this user may not even ask what it may: ${rights.detail}`, 'see redisAcl for the smallest ACL')
        : its.unknown(rights, 'what this user may'),
    ];
  }
  const { onlyLooks } = rights.value;
  return [
    onlyLooks
      ? its.notice('this user may only look; what owners may is seen only with theirs', 'ask again as the owners do')
      : owning(rights.value),
    looking(rights.value),
  ];
}

function owning({ missing, mayFlush, missingToLook }: StoreRights): Finding {
  const its = check('rights', '');
  const needed = missing.filter(({ isNeeded }) => isNeeded).map(({ right }) => right);
  const wanted = missing.filter(({ isNeeded }) => !isNeeded).map(({ right }) => right);
  const add = `ACL SETUSER <user> ${[...needed, ...wanted].join(' ')}`;
  if (needed.length > 0) return its.error(`this user lacks ${needed.join(' ')}: calls of owners fail`, add);
  if (wanted.length > 0) {
    return its.warning(
      `this user lacks ${wanted.join(' ')}: ${wanted.map((right) => LESS[right] ?? '').join('; ')}`,
      add,
    );
  }
  if (mayFlush && missingToLook.length === 0) {
    return its.notice('this user may do far more than it needs, such as FLUSHALL', SMALLEST);
  }
  return its.ok('this user may do what owners have to');
}

const LESS: Readonly<Record<string, string>> = {
  '+publish': 'who waits is told late',
  '+xadd': 'the log of resources stays empty',
  '+client|setname': "diagnosis cannot tell the owner's connections",
};

function looking({ missingToLook, onlyLooks }: StoreRights): Finding {
  const its = check('rights-to-look', '');
  if (missingToLook.length === 0) return its.ok('this user may ask all that diagnosis asks');
  const reason = `this user lacks ${missingToLook.join(' ')}: diagnosis sees less`;
  const remedy = onlyLooks
    ? `ACL SETUSER <user> ${missingToLook.join(' ')}`
    : 'look with a user of its own (redisDiagnosisAcl)';
  return its.notice(reason, remedy);
}
