import { z } from 'zod';

interface FaultOptions {
  readonly remedy?: string | undefined;
  readonly plain?: string;
  readonly secret?: boolean;
  readonly asIs?: boolean;
}

/** Why a value cannot be: the rule, without the value, which is put before it where it may be shown. */
export class Fault {
  /** `must be 1 to 100`. */
  readonly rule: string;
  readonly remedy: string | undefined;
  /** The rule for a value of the environment, if the other one or the remedy quotes from the value. */
  readonly plain: string | undefined;
  /** Whether the value may hold a password. */
  readonly secret: boolean;
  /** Whether the rule is a sentence by itself, that says what the value has rather than what it must be. */
  readonly asIs: boolean;

  constructor(rule: string, { remedy, plain, secret = false, asIs = false }: FaultOptions = {}) {
    this.rule = rule;
    this.remedy = remedy;
    this.plain = plain;
    this.secret = secret;
    this.asIs = asIs;
  }
}

/** The part of JSON Schema that a value has. */
export type Json = Readonly<Record<string, unknown>>;

/** A value with a rule of its own: `check` gives it as the settings have it, or the fault. */
export function field<Out, In>(json: Json, check: (value: unknown) => Out | Fault): z.ZodType<Out, In> {
  return z
    .unknown()
    .transform((value, ctx): Out => {
      const checked = check(value);
      if (!(checked instanceof Fault)) return checked;
      ctx.issues.push({ code: 'custom', input: value, message: checked.rule, params: { fault: checked } });
      return z.NEVER;
    })
    .meta({ json }) as unknown as z.ZodType<Out, In>;
}

export interface Doc {
  /** What the key means, in sentences. */
  readonly about: string;
  readonly default?: unknown;
  /** A default that is no value, in words. */
  readonly otherwise?: string;
  readonly examples?: readonly unknown[];
}

function metaOf({ about, otherwise, examples, ...others }: Doc): Record<string, unknown> {
  return {
    description: otherwise === undefined ? about : `${about} Default: ${otherwise}.`,
    ...('default' in others && { jsonDefault: others.default }),
    ...(examples && { examples }),
  };
}

/** A key that may be left out. */
export function optional<Out, In>(schema: z.ZodType<Out, In>, doc: Doc): z.ZodOptional<z.ZodType<Out, In>> {
  return schema.optional().meta(metaOf(doc));
}

/** A key that must be there. */
export function required<Out, In>(schema: z.ZodType<Out, In>, doc: Doc): z.ZodType<Out, In> {
  return schema.meta({ ...metaOf(doc), jsonRequired: true });
}
