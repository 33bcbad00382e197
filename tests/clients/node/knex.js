// knex: schema builder, alterations, migrations with their lock, seeds' truncation, queries, upserts.
const Knex = require('knex');
const { assert, server, run, empty } = require('./checks');

const knex = Knex({ client: 'pg', connection: server, pool: { min: 0, max: 3 } });

// Migrations as values instead of files.
const migrations = [
  { name: '1_tables', up: async (knex) => {
    await knex.schema.createTable('author', (table) => {
      table.increments('id');
      table.string('name', 80).notNullable().unique();
      table.timestamps(true, true);
    });
    await knex.schema.createTable('book', (table) => {
      table.uuid('id').primary().defaultTo(knex.fn.uuid());
      table.integer('author_id').unsigned().references('id').inTable('author').onDelete('CASCADE').index();
      table.string('title').notNullable();
      table.decimal('price', 9, 2).defaultTo(0);
      table.enu('state', ['draft', 'published']).defaultTo('draft');
      table.enu('kind', ['paper', 'audio'], { useNative: true, enumName: 'book_kind' });
      table.jsonb('doc').defaultTo('{}');
      table.specificType('tags', 'text[]');
      table.boolean('sold').defaultTo(false);
      table.binary('cover');
      table.date('published');
      table.time('hour');
      table.double('weight');
      table.bigInteger('isbn').comment('The number');
      table.unique(['author_id', 'title'], { indexName: 'book_once' });
      table.comment('Books');
    });
  }, down: async (knex) => {
    await knex.schema.dropTable('book');
    await knex.schema.dropTable('author');
    await knex.raw('DROP TYPE book_kind');
  } },
  { name: '2_alter', up: async (knex) => {
    await knex.schema.alterTable('book', (table) => {
      table.string('subtitle', 100);
      table.renameColumn('sold', 'is_sold');
      table.text('title').notNullable().alter();
      table.index(['title', 'price'], 'book_by_title');
      table.check('price >= 0', undefined, 'price_is_positive');
      table.setNullable('author_id');
    });
  }, down: async (knex) => {
    await knex.schema.alterTable('book', (table) => {
      table.dropChecks('price_is_positive');
      table.dropIndex(['title', 'price'], 'book_by_title');
      table.renameColumn('is_sold', 'sold');
      table.dropColumn('subtitle');
    });
  } },
];
const migrationSource = {
  getMigrations: async () => migrations,
  getMigrationName: (migration) => migration.name,
  getMigration: async (migration) => migration,
};

run('knex', {
  async 'an empty schema'() {
    await empty();
  },
  async 'migrations up'() {
    const [batch, done] = await knex.migrate.latest({ migrationSource });
    assert.deepEqual([batch, done], [1, ['1_tables', '2_alter']]);
    assert.deepEqual(await knex.migrate.latest({ migrationSource }), [1, []]);
  },
  async 'hasTable, hasColumn and columnInfo'() {
    assert.equal(await knex.schema.hasTable('book'), true);
    assert.equal(await knex.schema.hasTable('nothing'), false);
    assert.equal(await knex.schema.hasColumn('book', 'subtitle'), true);
    const info = await knex('book').columnInfo();
    assert.equal(info.title.type, 'text');
    assert.equal(info.title.nullable, false);
    assert.equal(info.subtitle.maxLength, 100);
    assert.equal(info.price.defaultValue, "'0'::numeric");
  },
  async 'insert, update, delete with returning'() {
    const [ann] = await knex('author').insert({ name: 'Ann' }).returning(['id', 'name', 'created_at']);
    assert.ok(ann.created_at instanceof Date);
    const books = await knex('book').insert([
      { author_id: ann.id, title: 'One', price: 9.5, doc: { pages: 10 }, tags: ['a', 'b'], kind: 'paper', cover: Buffer.from('x') },
      { author_id: ann.id, title: 'Two', state: 'published', kind: 'audio' },
    ]).returning('*');
    assert.deepEqual([books[0].price, books[0].doc, books[1].price, books[1].doc], ['9.50', { pages: 10 }, '0.00', {}]);
    assert.equal(await knex('book').where({ title: 'One' }).update({ is_sold: true, updated: undefined }), 1);
    assert.equal(await knex('book').where('title', 'One').increment('price', 1), 1);
    assert.equal(await knex('book').where('price', '<', 0).del(), 0);
  },
  async 'upserts'() {
    await knex('author').insert({ name: 'Ann' }).onConflict('name').ignore();
    const [row] = await knex('author').insert({ name: 'Ann', updated_at: '2024-01-01' }).onConflict('name').merge(['updated_at']).returning('*');
    assert.equal(row.id, 1);
  },
  async 'queries'() {
    const rows = await knex('book as b').join('author as a', 'a.id', 'b.author_id').select('a.name', knex.raw('count(*)::int as n'))
      .groupBy('a.name').having(knex.raw('count(*)'), '>', 1).orderBy('a.name', 'desc', 'last').limit(5).offset(0);
    assert.deepEqual(rows, [{ name: 'Ann', n: 2 }]);
    assert.equal((await knex('book').whereJsonSupersetOf('doc', { pages: 10 })).length, 1);
    assert.equal((await knex('book').whereIn(['author_id', 'title'], [[1, 'One'], [1, 'Three']])).length, 1);
    assert.equal((await knex('book').whereILike('title', 'o%').orWhereNull('title').orWhereBetween('price', [100, 200])).length, 1);
    assert.equal((await knex.with('w', knex('book').where('price', '>', 1)).select('*').from('w')).length, 1);
    assert.equal((await knex.withRecursive('r', (q) => q.select('id as n').from('author')
      .unionAll((q) => q.select(knex.raw('n + 1')).from('r').where('n', '<', 5))).select('n').from('r')).length, 5);
    assert.equal((await knex('book').distinctOn('author_id').orderBy(['author_id', { column: 'price', order: 'desc' }])).length, 1);
    assert.equal((await knex('book').select('title').rank('r', 'price', 'author_id')).length, 2);
    assert.equal((await knex.select('*').from(knex('book').select('title').union(knex('author').select('name')).as('u'))).length, 3);
  },
  async 'paths into JSON'() {
    assert.equal((await knex('book').whereJsonPath('doc', '$.pages', '=', 10)).length, 1);
    assert.deepEqual(await knex('book').jsonExtract('doc', '$.pages', 'pages').whereNotNull('tags'), [{ pages: 10 }]);
  },
  async 'transactions with locks'() {
    await knex.transaction(async (trx) => {
      await trx('book').where({ title: 'One' }).forUpdate().first();
      await trx('book').where({ title: 'One' }).forShare().select('id');
      await trx.transaction(async (inner) => { await inner('author').insert({ name: 'Bob' }); await inner.rollback(); }).catch(() => {});
    }, { isolationLevel: 'repeatable read' });
    assert.equal((await knex('author').count('* as n').first()).n, '1');
  },
  async 'rows that are locked are skipped'() {
    await knex.transaction((trx) => trx('book').where({ title: 'Two' }).forUpdate().skipLocked().first());
  },
  async 'a view and a materialized view'() {
    await knex.schema.createView('dear', (view) => { view.columns(['id', 'title']); view.as(knex('book').select('id', 'title').where('price', '>', 1)); });
    await knex.schema.createViewOrReplace('dear', (view) => { view.columns(['id', 'title']); view.as(knex('book').select('id', 'title').where('price', '>', 2)); });
    await knex.schema.dropView('dear');
    await knex.schema.createMaterializedView('counts', (view) => { view.as(knex('book').select('author_id').count('* as n').groupBy('author_id')); });
    await knex.schema.refreshMaterializedView('counts');
    await knex.schema.dropMaterializedView('counts');
  },
  async 'a stream'() {
    let seen = 0;
    for await (const row of knex('book').select('title').stream()) seen += row ? 1 : 0;
    assert.equal(seen, 2);
  },
  async 'a batch and a truncation'() {
    await knex.batchInsert('author', Array.from({ length: 250 }, (_, n) => ({ name: `author ${n}` })), 100);
    await knex.raw('TRUNCATE TABLE ?? RESTART IDENTITY CASCADE', ['author']);
    assert.deepEqual(await knex('author').insert({ name: 'first' }).returning('id'), [{ id: 1 }]);
  },
  async 'migrations down'() {
    await knex.migrate.rollback({ migrationSource }, true);
    assert.equal(await knex.schema.hasTable('book'), false);
  },
});
