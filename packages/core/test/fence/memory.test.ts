import { describeFence } from '../../src/testing/fence-suite.ts';
import { memoryFenceSubject } from '../testing/memory-subject.ts';

describeFence('memory', () => memoryFenceSubject(), ['count']);
