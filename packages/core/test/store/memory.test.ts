import { describeLeaseStore } from '../../src/testing/store-suite.ts';
import { memoryStoreSubject } from '../testing/memory-subject.ts';

describeLeaseStore('memory', () => memoryStoreSubject(), ["second","flush","evict","setField","stepClock","messages"]);
