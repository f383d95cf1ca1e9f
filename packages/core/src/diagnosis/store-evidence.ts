export type { OwnerConnection, RecordShape, ServerEvidence, StoreEvidence } from '../store/evidence.ts';
