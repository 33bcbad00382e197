// kysely: schema builder, introspection, migrations, queries.
const { Kysely, PostgresDialect, Migrator, sql } = require('kysely');
const { jsonArrayFrom, jsonObjectFrom, jsonBuildObject } = require('kysely/helpers/postgres');
const { Pool } = require('pg');
const Cursor = require('pg-cursor');
const { assert, server, run, empty } = require('./checks');

const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool({ ...server, max: 3 }), cursor: Cursor }) });

const migrations = {
  '1_tables': {
    async up(db) {
      await db.schema.createType('species').asEnum(['cat', 'dog']).execute();
      await db.schema.createTable('person')
        .addColumn('id', 'serial', (column) => column.primaryKey())
        .addColumn('name', 'varchar(80)', (column) => column.notNull())
        .addColumn('age', 'integer', (column) => column.check(sql`age >= 0`))
        .addColumn('doc', 'jsonb')
        .addColumn('made', 'timestamptz', (column) => column.defaultTo(sql`now()`).notNull())
        .addUniqueConstraint('person_name_once', ['name']).execute();
      await db.schema.createTable('pet')
        .addColumn('id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('species', sql`species`, (column) => column.notNull())
        .addColumn('loud', 'text', (column) => column.generatedAlwaysAs(sql`upper(name)`).stored())
        .addColumn('owner_id', 'integer', (column) => column.references('person.id').onDelete('cascade').notNull()).execute();
      await db.schema.createIndex('pet_owner').on('pet').columns(['owner_id', 'name desc']).execute();
      await db.schema.createIndex('pet_lower').ifNotExists().on('pet').expression(sql`lower(name)`).where('name', '!=', '').execute();
      await db.schema.createView('cat').as(db.selectFrom('pet').selectAll().where('species', '=', sql`'cat'`)).execute();
    },
    async down(db) {
      await db.schema.dropView('cat').execute();
      await db.schema.dropTable('pet').execute();
      await db.schema.dropTable('person').cascade().execute();
      await db.schema.dropType('species').execute();
    },
  },
  '2_alter': {
    async up(db) {
      await db.schema.alterTable('person').addColumn('mail', 'text').alterColumn('age', (column) => column.setDataType('bigint')).execute();
      await db.schema.alterTable('person').alterColumn('age', (column) => column.setDefault(1)).execute();
      await db.schema.alterTable('person').addCheckConstraint('mail_has_at', sql`mail LIKE '%@%'`).execute();
      await db.schema.alterTable('person').renameColumn('mail', 'email').execute();
    },
    async down(db) {
      await db.schema.alterTable('person').dropConstraint('mail_has_at').execute();
      await db.schema.alterTable('person').dropColumn('email').execute();
    },
  },
};
const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
const settle = ({ error, results }) => { if (error) throw error; return results.map((result) => result.status); };

run('kysely', {
  async 'an empty schema'() {
    await empty();
  },
  async 'migrations up'() {
    assert.deepEqual(settle(await migrator.migrateToLatest()), ['Success', 'Success']);
  },
  async 'introspection'() {
    const tables = await db.introspection.getTables();
    assert.deepEqual(tables.map((table) => [table.name, table.isView]), [['cat', true], ['person', false], ['pet', false]]);
    const person = tables.find((table) => table.name === 'person');
    assert.deepEqual(person.columns.map((column) => [column.name, column.dataType, column.isNullable, column.isAutoIncrementing, column.hasDefaultValue]), [
      ['id', 'int4', false, true, true], ['name', 'varchar', false, false, false], ['age', 'int8', true, false, true],
      ['doc', 'jsonb', true, false, false], ['made', 'timestamptz', false, false, true], ['email', 'text', true, false, false]]);
    assert.deepEqual((await db.introspection.getSchemas()).map((schema) => schema.name).filter((name) => name === 'public'), ['public']);
  },
  async 'insert, update, delete with returning'() {
    const people = await db.insertInto('person').values([{ name: 'Ann', age: 30, doc: JSON.stringify({ a: 1 }) }, { name: 'Bob', age: null }]).returningAll().execute();
    assert.deepEqual(people.map((row) => row.id), [1, 2]);
    await db.insertInto('pet').values([{ name: 'Tom', species: 'cat', owner_id: 1 }, { name: 'Rex', species: 'dog', owner_id: 1 }]).execute();
    const upserted = await db.insertInto('person').values({ name: 'Ann', age: 31 })
      .onConflict((conflict) => conflict.constraint('person_name_once').doUpdateSet((eb) => ({ age: eb.ref('excluded.age') }))).returning('age').executeTakeFirstOrThrow();
    assert.equal(upserted.age, '31');
    await db.updateTable('pet').from('person').set({ name: 'Tim' }).whereRef('person.id', '=', 'pet.owner_id').where('pet.name', '=', 'Tom').executeTakeFirst();
    const gone = await db.deleteFrom('pet').using('person').whereRef('person.id', '=', 'pet.owner_id').where('pet.name', '=', 'None').executeTakeFirst();
    assert.equal(gone.numDeletedRows, 0n);
  },
  async 'nested rows as JSON'() {
    const [ann] = await db.selectFrom('person').select((eb) => ['person.name',
      jsonArrayFrom(eb.selectFrom('pet').select(['pet.name', 'pet.loud']).whereRef('pet.owner_id', '=', 'person.id').orderBy('pet.name')).as('pets'),
      jsonObjectFrom(eb.selectFrom('pet').select('pet.species').whereRef('pet.owner_id', '=', 'person.id').orderBy('pet.id').limit(1)).as('first'),
      jsonBuildObject({ n: eb.ref('person.name') }).as('doc')]).orderBy('id').execute();
    assert.deepEqual(ann, { name: 'Ann', pets: [{ name: 'Rex', loud: 'REX' }, { name: 'Tim', loud: 'TIM' }], first: { species: 'cat' }, doc: { n: 'Ann' } });
  },
  async 'queries'() {
    const rows = await db.selectFrom('person as p').leftJoin('pet', 'pet.owner_id', 'p.id')
      .select(({ fn }) => ['p.name', fn.count('pet.id').distinct().as('n'), fn.agg('array_agg', ['pet.name']).filterWhere('pet.name', 'is not', null).as('names')])
      .groupBy('p.name').orderBy('p.name').execute();
    assert.equal(rows[0].n, '2');
    await db.selectFrom('person').innerJoinLateral((eb) => eb.selectFrom('pet').select('name as pet').whereRef('owner_id', '=', 'person.id').limit(1).as('x'), (join) => join.onTrue()).selectAll().execute();
    await db.with('old', (db) => db.selectFrom('person').selectAll().where('age', '>', 10)).selectFrom('old').selectAll().where((eb) => eb.exists(eb.selectFrom('pet').select('id').whereRef('owner_id', '=', 'old.id'))).execute();
    await db.with('made', (db) => db.insertInto('person').values({ name: 'Cid' }).returning('id')).insertInto('pet').expression((eb) => eb.selectFrom('made').select(['id', sql`'Pip'`.as('n')])).columns(['owner_id', 'name']).execute().catch((error) => assert.equal(error.code, '23502'));
    await db.selectFrom('person').select((eb) => eb.case().when('age', '>', 10).then('old').else('young').end().as('kind')).where((eb) => eb.or([eb('name', 'ilike', 'a%'), eb('age', 'in', [1, 2])])).distinctOn('name').execute();
    await db.selectFrom('person').select((eb) => [eb.ref('doc', '->>').key('a').as('a'), eb.fn.sum('age').over((over) => over.partitionBy('name').orderBy('id')).as('s')]).execute();
    await sql`merge into person as p using (values ('Ann', 1)) as v (name, age) on p.name = v.name when matched then update set age = v.age when not matched then insert (name, age) values (v.name, v.age)`.execute(db);
  },
  async 'a stream'() {
    let seen = 0;
    for await (const row of db.selectFrom('person').selectAll().stream(1)) seen += row.id > 0 ? 1 : 0;
    assert.equal(seen, 2);
  },
  async 'transactions'() {
    await db.transaction().setIsolationLevel('serializable').setAccessMode('read only').execute((trx) => trx.selectFrom('person').selectAll().forShare().execute()).catch((error) => assert.equal(error.code, '25006'));
    await db.transaction().execute((trx) => trx.selectFrom('person').selectAll().forUpdate(['person']).noWait().execute());
  },
  async 'migrations down'() {
    settle(await migrator.migrateDown());
    settle(await migrator.migrateDown());
    assert.deepEqual((await db.introspection.getTables()).length, 0);
  },
});
