// What `prisma generate` 7.10.0 writes for the schema below (generator `prisma-client`), cut down to what runs: its own
// file has two thousand lines of types for this one model. It needs no engine; the generator wants to fetch one.
import { getPrismaClient, type ClientOtherOps, type GetPrismaClientConfig } from '@prisma/client/runtime/client';
import type { PrismaPg } from '@prisma/adapter-pg';
import { createRequire } from 'node:module';

const load = createRequire(import.meta.url);
const COMPILER = '@prisma/client/runtime/query_compiler_fast_bg.postgresql';
// Node has it, its types do not.
const { Module } = (globalThis as unknown as { WebAssembly: { Module: new (bytes: Buffer) => object } }).WebAssembly;

const inlineSchema = `
generator client {
  provider = "prisma-client"
  output   = "client"
}

datasource db {
  provider = "postgresql"
}

model Account {
  id      Int @id
  balance Int

  @@map("accounts")
}
`;

const config: GetPrismaClientConfig = {
  previewFeatures: [],
  clientVersion: '7.10.0',
  engineVersion: '0edf323efd1d98336f3f0a68684b56f689b900d3',
  activeProvider: 'postgresql',
  inlineSchema,
  runtimeDataModel: JSON.parse(
    '{"models":{"Account":{"fields":[{"name":"id","kind":"scalar","type":"Int"},{"name":"balance","kind":"scalar","type":"Int"}],"dbName":"accounts","schema":null}},"enums":{},"types":{}}',
  ),
  parameterizationSchema: {
    // prettier-ignore
    strings: ["where","Account.findUnique","Account.findUniqueOrThrow","orderBy","cursor","Account.findFirst","Account.findFirstOrThrow","Account.findMany","data","Account.createOne","Account.createMany","Account.createManyAndReturn","Account.updateOne","Account.updateMany","Account.updateManyAndReturn","create","update","Account.upsertOne","Account.deleteOne","Account.deleteMany","having","_count","_avg","_sum","_min","_max","Account.groupBy","Account.aggregate","AND","OR","NOT","id","balance","equals","in","notIn","lt","lte","gt","gte","not","set","increment","decrement","multiply","divide"],
    graph:
      'JgsQBRwAAB8AMB0AAAQAEB4AAB8AMB8CAAAAASACACAAIQEAAAABACABAAAAAQAgBRwAAB8AMB0AAAQAEB4AAB8AMB8CACAAISACACAAIQADAAAABAAgAwAABQAwBAAAAQAgAwAAAAQAIAMAAAUAMAQAAAEAIAMAAAAEACADAAAFADAEAAABACACHwIAAAABIAIAAAABAQgAAAkAIAIfAgAAAAEgAgAAAAEBCAAACwAwAQgAAAsAMAIfAgAmACEgAgAmACECAAAAAQAgCAAADgAgAh8CACYAISACACYAIQIAAAAEACAIAAAQACACAAAABAAgCAAAEAAgAwAAAAEAIA8AAAkAIBAAAA4AIAEAAAABACABAAAABAAgBRUAACEAIBYAACIAIBcAACUAIBgAACQAIBkAACMAIAUcAAAaADAdAAAXABAeAAAaADAfAgAbACEgAgAbACEDAAAABAAgAwAAFgAwFAAAFwAgAwAAAAQAIAMAAAUAMAQAAAEAIAUcAAAaADAdAAAXABAeAAAaADAfAgAbACEgAgAbACENFQAAHQAgFgAAHgAgFwAAHQAgGAAAHQAgGQAAHQAgIQIAAAABIgIAAAAEIwIAAAAEJAIAAAABJQIAAAABJgIAAAABJwIAAAABKAIAHAAhDRUAAB0AIBYAAB4AIBcAAB0AIBgAAB0AIBkAAB0AICECAAAAASICAAAABCMCAAAABCQCAAAAASUCAAAAASYCAAAAAScCAAAAASgCABwAIQghAgAAAAEiAgAAAAQjAgAAAAQkAgAAAAElAgAAAAEmAgAAAAEnAgAAAAEoAgAdACEIIQgAAAABIggAAAAEIwgAAAAEJAgAAAABJQgAAAABJggAAAABJwgAAAABKAgAHgAhBRwAAB8AMB0AAAQAEB4AAB8AMB8CACAAISACACAAIQghAgAAAAEiAgAAAAQjAgAAAAQkAgAAAAElAgAAAAEmAgAAAAEnAgAAAAEoAgAdACEAAAAAAAUpAgAAAAEqAgAAAAErAgAAAAEsAgAAAAEtAgAAAAEAAAAABRUABhYABxcACBgACRkACgAAAAAABRUABhYABxcACBgACRkACgECAQIDAQUGAQYHAQcIAQkKAQoMAgsNAwwPAQ0RAg4SBBETARIUARMVAhoYBRsZCw',
  },
  compilerWasm: {
    getRuntime: async () => load(`${COMPILER}.js`),
    getQueryCompilerWasmModule: async () => new Module(Buffer.from(load(`${COMPILER}.wasm-base64.js`).wasm, 'base64')),
    importName: './query_compiler_fast_bg.js',
  },
};

interface Queries extends ClientOtherOps {
  readonly account: {
    update(args: { where: { id: number }; data: { balance: { decrement: number } } }): Promise<unknown>;
  };
}

export interface PrismaClient extends Queries {
  $transaction<T>(body: (tx: Queries) => Promise<T>): Promise<T>;
  $disconnect(): Promise<void>;
}

interface PrismaClientConstructor {
  new (options: { adapter: PrismaPg }): PrismaClient;
}

export const PrismaClient = getPrismaClient(config) as unknown as PrismaClientConstructor;
