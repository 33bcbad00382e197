// drizzle: its own tables by drizzle-kit push (twice), introspection by drizzle-kit pull, migrations, queries.
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { drizzle } = require('drizzle-orm/node-postgres');
const { drizzle: drizzleOfPostgres } = require('drizzle-orm/postgres-js');
const { migrate } = require('drizzle-orm/node-postgres/migrator');
const { eq, and, or, sql, desc, inArray, ilike, arrayContains, count, sum, exists } = require('drizzle-orm');
const { Pool } = require('pg');
const postgres = require('postgres');
const { assert, server, url, run, empty } = require('./checks');
const tables = require('./drizzle-schema');

const pool = new Pool({ ...server, max: 3 });
const db = drizzle(pool, { schema: tables });
const { users, posts } = tables;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'drizzle-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

function kit(...args) {
  const modules = path.join(process.env.HALCYON_NODE, 'node_modules');
  if (!fs.existsSync(path.join(folder, 'node_modules'))) {
    fs.symlinkSync(modules, path.join(folder, 'node_modules'));
    fs.copyFileSync(path.join(__dirname, 'drizzle-schema.js'), path.join(folder, 'drizzle-schema.js'));
  }
  const { stdout, stderr, error } = spawnSync(process.execPath, [path.join(modules, 'drizzle-kit', 'bin.cjs'), ...args],
    { cwd: folder, encoding: 'utf8', timeout: 18000 });
  if (error) throw error;
  const out = (stdout + stderr).replace(/\x1b\[[0-9;]*[A-Za-z]/g, '').replace(/^\[.\] Pulling.*$/gm, '').replace(/\[[⣷⣯⣟⡿⢿⣻⣽⣾]\][^\n]*/g, '');
  if (/error:/i.test(out)) throw new Error(out.slice(out.search(/error:/i)).slice(0, 600));
  return out;
}
const where = ['--dialect', 'postgresql', '--url', url];

run('drizzle', {
  async 'an empty schema'() {
    await empty();
  },
  async 'drizzle-kit push'() {
    assert.match(kit('push', ...where, '--schema', './drizzle-schema.js', '--force'), /Changes applied/);
  },
  async 'drizzle-kit push again: nothing is to do'() {
    assert.match(kit('push', ...where, '--schema', './drizzle-schema.js', '--force'), /No changes detected/);
  },
  async 'drizzle-kit pull'() {
    kit('pull', ...where, '--out', './pulled');
    const text = fs.readFileSync(path.join(folder, 'pulled', 'schema.ts'), 'utf8');
    for (const part of ['pgEnum("role"', 'uuid().defaultRandom()', 'numeric({ precision: 9, scale:  2 })', 'text().array()', 'generatedAlwaysAs', 'index("posts_title_idx")', 'unique("users_mail_unique")', 'check("posts_price_check"', 'foreignKey(']) {
      assert.ok(text.includes(part), `${part} is missing in ${text.slice(0, 3000)}`);
    }
    assert.ok(!text.includes('pgSchema'), 'a schema of the system is taken for one of the user');
  },
  async 'drizzle-kit generate and migrations'() {
    await empty();
    kit('generate', '--dialect', 'postgresql', '--schema', './drizzle-schema.js', '--out', './migrations', '--name', 'first');
    await migrate(db, { migrationsFolder: path.join(folder, 'migrations') });
    await migrate(db, { migrationsFolder: path.join(folder, 'migrations') });
  },
  async 'insert, update, delete with returning'() {
    const [ann] = await db.insert(users).values({ name: 'Ann', mail: 'a@example.com', role: 'admin', doc: { a: 1 } }).returning();
    assert.deepEqual([ann.id, ann.role, ann.doc, ann.made instanceof Date], [1, 'admin', { a: 1 }, true]);
    await db.insert(users).values({ name: 'Ann', mail: 'a@example.com' }).onConflictDoNothing();
    const [again] = await db.insert(users).values({ name: 'Ann 2', mail: 'a@example.com' }).onConflictDoUpdate({ target: users.mail, set: { name: sql`excluded.name` } }).returning({ name: users.name });
    assert.equal(again.name, 'Ann 2');
    const made = await db.insert(posts).values([{ title: 'One', price: '9.50', tags: ['x', 'y'], userId: ann.id }, { title: 'Two', userId: ann.id }]).returning();
    assert.deepEqual(made.map((post) => [post.price, post.tags, post.shout]), [['9.50', ['x', 'y'], 'ONE'], ['0.00', null, 'TWO']]);
    await db.update(posts).set({ price: sql`${posts.price} + 1` }).where(eq(posts.title, 'One'));
    await db.delete(posts).where(eq(posts.title, 'None'));
  },
  async 'relational queries'() {
    const found = await db.query.users.findMany({ with: { posts: { columns: { title: true }, orderBy: (posts, { desc }) => [desc(posts.title)], limit: 1 } }, extras: { loud: sql`upper(${users.name})`.as('loud') } });
    assert.deepEqual([found[0].posts, found[0].loud], [[{ title: 'Two' }], 'ANN 2']);
    const post = await db.query.posts.findFirst({ where: (posts, { eq }) => eq(posts.title, 'One'), with: { user: { with: { posts: true } } } });
    assert.equal(post.user.posts.length, 2);
  },
  async 'queries'() {
    await db.select({ name: users.name, n: count(posts.id), s: sum(posts.price) }).from(users).leftJoin(posts, eq(posts.userId, users.id)).groupBy(users.name).having(sql`count(*) > 0`).orderBy(desc(users.name));
    assert.equal((await db.select().from(posts).where(and(arrayContains(posts.tags, ['x']), or(ilike(posts.title, 'o%'), inArray(posts.title, ['q']))))).length, 1);
    const sub = db.$with('s').as(db.select({ id: users.id }).from(users).where(exists(db.select().from(posts).where(eq(posts.userId, users.id)))));
    assert.equal((await db.with(sub).select().from(sub)).length, 1);
    assert.equal(await db.$count(posts), 2);
    const prepared = db.select().from(users).where(eq(users.id, sql.placeholder('id'))).prepare('by_id');
    assert.equal((await prepared.execute({ id: 1 })).length, 1);
    assert.equal((await db.selectDistinctOn([posts.userId]).from(posts).orderBy(posts.userId)).length, 1);
    await db.refreshMaterializedView(tables.counts);
    assert.deepEqual(await db.select().from(tables.counts), [{ userId: 1, n: 2 }]);
  },
  async 'transactions'() {
    await db.transaction(async (tx) => {
      await tx.select().from(posts).for('update');
      await tx.transaction(async (inner) => { await inner.insert(users).values({ name: 'x', mail: 'x' }); inner.rollback(); }).catch(() => {});
    }, { isolationLevel: 'serializable', accessMode: 'read write', deferrable: false });
    assert.equal(await db.$count(users), 1);
    await db.transaction((tx) => tx.select().from(posts).for('no key update', { of: posts }));
  },
  async 'rows that are locked are skipped'() {
    await db.transaction((tx) => tx.select().from(posts).limit(1).for('update', { skipLocked: true }));
  },
  async 'through postgres.js'() {
    const client = postgres({ ...server, max: 1 });
    const other = drizzleOfPostgres(client, { schema: tables });
    assert.equal((await other.query.users.findMany({ with: { posts: true } }))[0].posts.length, 2);
    await client.end();
  },
});
