import { z } from 'zod';
import { parseDuration } from './duration.ts';

/** An optional duration; `allowed` is the option's own rule, in words `rule`. */
export function durationSchema(
  option: string,
  allowed: (ms: number) => boolean = () => true,
  rule = '',
): z.ZodOptional<z.ZodType<number>> {
  return z
    .unknown()
    .transform((value) => parseDuration(option, value))
    .refine(allowed, rule)
    .optional();
}
