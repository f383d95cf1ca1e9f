export { known, unknown, valueOf, type Reading } from '../store/reading.ts';
