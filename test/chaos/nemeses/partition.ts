import { dropped, held } from './proxied.ts';

/** An owner and the store do not hear each other for longer than a lease, and its connections are dead afterwards. */
export const partition = dropped('partition', 'store', 'up', 'down');

/** The same, and when it is over all that was sent arrives. */
export const partitionHeld = held('partition-held', 'store', 'up', 'down');

/** The store hears of nothing. */
export const requestsLost = dropped('requests-lost', 'store', 'up');

/** The store does what it is asked to, and nobody hears of it. */
export const repliesLost = dropped('replies-lost', 'store', 'down');

/** The store does what it is asked to, and its replies come when nobody waits for them any more. */
export const repliesHeld = held('replies-held', 'store', 'down');

/** An owner and its fence do not hear each other, while it goes on to hold its lease. */
export const fencePartition = dropped('fence-partition', 'fence', 'up', 'down');

/** The same, and when it is over all that was sent arrives. */
export const fencePartitionHeld = held('fence-partition-held', 'fence', 'up', 'down');

/** The fence carries out what it is asked to, and nobody hears of it. */
export const fenceRepliesLost = dropped('fence-replies-lost', 'fence', 'down');
