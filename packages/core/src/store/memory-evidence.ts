import type { ServerEvidence } from './evidence.ts';
import type { MemoryServer } from './memory-server.ts';
import { known, unknown } from './reading.ts';

/** Memory as a server: it forgets all when it restarts, and has nobody beside it. */
export function memoryEvidence(endpoint: string, server: MemoryServer, nowUs: number): ServerEvidence {
  const none = unknown('not-known', 'memory has no such thing');
  return {
    endpoint,
    version: none,
    mode: none,
    role: known('master'),
    runId: known(String(server.life)),
    replicationId: none,
    previousReplicationId: none,
    uptimeMs: known(server.ageMs()),
    loading: known(false),
    linkUp: known(null),
    replicas: known([]),
    evictionPolicy: known('noeviction'),
    evictedKeys: known(0),
    usedBytes: none,
    maxBytes: known(0),
    persistence: known({ appendOnly: false, fsync: '', snapshots: '', error: '' }),
    settings: known(true),
    minReplicas: known(0),
    clockOffset: known({ offsetMs: nowUs / 1000 - server.wallMs(), errorMs: 0 }),
  };
}
