// Names that are used once: what they leave in the process.
import {
  type AcquireReply,
  type AcquireRequest,
  LeaseManager,
  type ReleaseReply,
  type ReleaseRequest,
  type StoreCall,
} from '@leasehold/core';
import { RedisLeaseStore } from '@leasehold/core/redis';

import { heapUsed } from '../heap-used.ts';
import { inFlight, measured, type Measured, type Side } from '../side.ts';

export interface ScaleNamesSetup {
  readonly url: string;
  readonly retentionMs: number;
}

export interface Wave extends Measured {
  readonly heapBytes: number;
}

const AT_ONCE = 100;

/** Managers take no retention below a minute: nobody wants to wait for that here. */
class ForgetfulStore extends RedisLeaseStore {
  retentionMs = 0;

  override acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    return super.acquire({ ...request, retentionMs: this.retentionMs }, call);
  }

  override release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply> {
    return super.release({ ...request, retentionMs: this.retentionMs }, call);
  }
}

export async function open({ url, retentionMs }: ScaleNamesSetup): Promise<Side> {
  const store = new ForgetfulStore(url);
  store.retentionMs = retentionMs;
  const leases = new LeaseManager({ store });
  let next = 0;
  return {
    heap: () => heapUsed(),
    async wave({ count }: { readonly count: number }): Promise<Wave> {
      const its = await measured(() =>
        inFlight(AT_ONCE, count, async () => (await leases.acquire(`order-${next++}`)).release()),
      );
      return { ...its, heapBytes: await heapUsed() };
    },
    close: async () => void (await leases.close()),
  };
}
