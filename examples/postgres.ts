// A ledger in PostgreSQL: guard and data in one transaction, and a table that refuses who forgets the guard.
import { LeaseManager } from '@leasehold/core';
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import { redisStore } from '@leasehold/core/redis';
import pg from 'pg';

const pool = new pg.Pool({
  connectionString: process.env.LEASEHOLD_POSTGRES_URL ?? 'postgres://localhost:5432/postgres',
});
const ledger = postgresFence(pool, { name: 'ledger' });
const store = redisStore(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379', { prefix: 'bank' });
const leases = new LeaseManager({ store });

// Once, as a migration: `installSchema`, or the SQL file of the package.
await installSchema(pool);
await pool.query('create table if not exists accounts (id int primary key, balance int not null)');
await pool.query(`select leasehold.protect('accounts', $$'bank/account:' || NEW.id$$)`);

const deposit = (amount: number) =>
  leases.run('account:42', { fences: [ledger], wait: '10s' }, async (lease) => {
    const balance = await ledger.write(lease, async (tx) => {
      const { rows } = await tx.query<{ balance: number }>(
        `insert into accounts values (42, $1)
           on conflict (id) do update set balance = accounts.balance + $1 returning balance`,
        [amount],
      );
      return rows[0]?.balance;
    });
    console.log(`balance ${balance}`);
    return lease.grant;
  });

const early = await deposit(100);
await deposit(20);
// An owner that was paused for too long. Its grant is all that a fence looks at.
await ledger
  .write(early, (tx) => tx.query('update accounts set balance = 0 where id = 42'))
  .catch((error: unknown) => console.log(String(error)));
// Somebody who has no lease at all.
await pool
  .query('update accounts set balance = 0 where id = 42')
  .catch((error: unknown) => console.log((error as pg.DatabaseError).code, String(error)));

await leases.close();
await pool.end();
