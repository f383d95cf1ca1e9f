let made = 0;

/** A name that nothing else has, not even a run of an hour ago on the same server. */
export function unique(stem: string): string {
  made++;
  return `${stem}-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}-${made}`;
}

export function newLeaseId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Hands the thread to whoever waits for it. */
export function yieldOnce(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
