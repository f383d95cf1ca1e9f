import { RunCancelledError } from '../errors.ts';
import type { AcquireSettings } from '../options.ts';
import { isRefusal } from './acquirer.ts';
import type { RunBody, TryRunResult } from './manager.ts';
import type { Refusal } from './refusal.ts';
import { KEPT } from './releaser.ts';
import type { Tenure } from './tenure.ts';

/**
 * Ends a run from outside, as a signal does, for those who have a run every few microseconds: nothing is made, and nobody
 * listens, before it is pulled.
 */
export interface Brake {
  /** Whether it was pulled. */
  readonly aborted: boolean;
  /** Why. */
  readonly reason: Error | undefined;
  /** Calls the listener once when it is pulled; in place of the one before. What it returns ends that. */
  listen(listener: () => void): () => void;
}

/** What the run of a job has beside its body. */
export interface JobSide {
  readonly brake: Brake;
  /** Given the release, which is not waited for. */
  behind(tenure: Tenure, release: Promise<unknown>): void;
}

/** What it takes of the manager. */
export interface JobParts {
  prepare(options: object): AcquireSettings;
  obtain(resource: string, settings: AcquireSettings): Promise<Tenure | Refusal>;
  /** What lingers and fits; undefined if the store must be asked. */
  obtainNow(resource: string, settings: AcquireSettings): Tenure | undefined;
  runBody<T>(tenure: Tenure, settings: AcquireSettings, body: RunBody<T>, job: JobSide): Promise<T>;
  giveBack(tenure: Tenure): Promise<unknown>;
  /** Gives back what lingers, and waits for what is on its way back. Must not reject. */
  settle(): Promise<void>;
}

function ran<T>(value: T): TryRunResult<T> {
  return { ran: true, value };
}

/**
 * Runs that follow one another at once, as the jobs of a queue do. As `tryRun` of the manager, except that nobody waits
 * for the release but the next run of that resource here: until then a run that has resolved may still hold it for others.
 */
export class Jobs {
  readonly #parts: JobParts;
  readonly #releases = new Map<string, Promise<unknown>>();
  readonly #behind = (tenure: Tenure, release: Promise<unknown>): void => {
    if (release !== KEPT) this.#keep(tenure.resource, release);
  };

  constructor(parts: JobParts) {
    this.#parts = parts;
  }

  /** Options that are checked once for many runs. Throws `ConfigError`. */
  prepare(options: object): AcquireSettings {
    return this.#parts.prepare(options);
  }

  /** For settings that do not wait and have no signal; rejects as `tryRun` does. `asks` is called before the store is asked. */
  tryRun<T>(
    resource: string,
    settings: AcquireSettings,
    brake: Brake,
    body: RunBody<T>,
    asks?: () => void,
  ): Promise<TryRunResult<T>> {
    const side = { brake, behind: this.#behind };
    const tenure = brake.aborted ? undefined : this.#parts.obtainNow(resource, settings);
    if (tenure !== undefined) return this.#parts.runBody(tenure, settings, body, side).then(ran);
    asks?.();
    return this.#askAndRun(resource, settings, body, side);
  }

  /**
   * For a worker that ends while its manager goes on. Gives back what lingers; resolves when all that has been given back or
   * withdrawn until now is, or will be known to the store too late. Never rejects.
   */
  async released(): Promise<void> {
    await Promise.all(this.#releases.values());
    await this.#parts.settle();
  }

  async #askAndRun<T>(
    resource: string,
    settings: AcquireSettings,
    body: RunBody<T>,
    side: JobSide,
  ): Promise<TryRunResult<T>> {
    const tenure = await this.#obtain(resource, settings, side.brake);
    if (isRefusal(tenure)) return { ran: false, ...tenure };
    return ran(await this.#parts.runBody(tenure, settings, body, side));
  }

  /** Left as soon as the brake is pulled; what is granted after that is given back, and is a release from now on. */
  #obtain(resource: string, settings: AcquireSettings, brake: Brake): Promise<Tenure | Refusal> {
    return new Promise((resolve, reject) => {
      const refuse = (): void => reject(new RunCancelledError(resource, 'caller', undefined, brake.reason));
      if (brake.aborted) return refuse();
      let isOver = false;
      const asked = this.#ask(resource, settings);
      // Until the run listens in its place.
      brake.listen(() => {
        if (isOver) return;
        isOver = true;
        refuse();
        const giveBack = (tenure: Tenure | Refusal): unknown =>
          isRefusal(tenure) ? undefined : this.#parts.giveBack(tenure);
        this.#keep(
          resource,
          asked.then(giveBack, () => {}),
        );
      });
      asked.then((tenure) => {
        if (isOver) return;
        isOver = true;
        resolve(tenure);
      }, reject);
    });
  }

  /** Whoever asks before the last run has given it back would be refused because of it. */
  #ask(resource: string, settings: AcquireSettings): Promise<Tenure | Refusal> {
    const release = this.#releases.get(resource);
    if (release === undefined) return this.#parts.obtain(resource, settings);
    return release.then(() => this.#parts.obtain(resource, settings));
  }

  /** Beside what is on its way back already: there may be several, as long as answers are under way. */
  #keep(resource: string, its: Promise<unknown>): void {
    const earlier = this.#releases.get(resource);
    const release = earlier === undefined ? its : Promise.all([earlier, its]);
    this.#releases.set(resource, release);
    void release.then(() => {
      if (this.#releases.get(resource) === release) this.#releases.delete(resource);
    });
  }
}
