/**
 * Moments at which the engine, a client or a fence is hurt most by what happens then. Nothing in production is changed to
 * reach them: processes of a simulation can be stopped at each reading of their clock and at each call, and whatever leaves
 * them goes over a link. They are counted, and a suite that reaches one of them too rarely fails.
 */

/** Where a process can be stopped. A pause may lie in wait there. */
export const PLACES = [
  'stopped between the reading of the clock and the request for a lease',
  'stopped between the answer of the store and its use',
  'stopped between the check and the write',
  'stopped before an activation was sent',
  'stopped before a release was sent',
] as const;

export const POINTS = [
  ...PLACES,
  'a store carried it out, and its answer did not come',
  'a fence carried it out, and its answer did not come',
  'killed with a release under way',
  'a timer was late',
  'a word to a waiter or an owner was lost',
  'leases of one moment were extended with several calls',
  'stopped between two such calls',
  'a lease that lingered went to the next run',
  'a lease that lingered was given back because it was wanted',
  'a lease that lingered was given back by its time',
  'a lease was lost while it lingered',
  'killed while a lease lingered',
] as const;

export type Place = (typeof PLACES)[number];
export type Point = (typeof POINTS)[number];
