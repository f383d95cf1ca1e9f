import type { Logger } from '@leasehold/core';

function nothing(): void {}

/** What an owner of a drill has to say is in what it does. */
export const silent: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
