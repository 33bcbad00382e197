// TypeORM: the schema synchronized and synchronized again, migrations, relations, queries.
require('reflect-metadata');
const { DataSource, EntitySchema, In, ILike, Raw, ArrayContains, JsonContains, TableColumn, Table, TableIndex, TableForeignKey, Not, IsNull } = require('typeorm');
const { assert, server, run, empty } = require('./checks');

const Author = new EntitySchema({
  name: 'Author',
  columns: {
    id: { type: 'int', primary: true, generated: 'increment' },
    name: { type: 'varchar', length: 80, unique: true },
    made: { type: 'timestamptz', createDate: true },
    changed: { type: 'timestamp', updateDate: true },
    gone: { type: 'timestamptz', deleteDate: true },
    version: { type: 'int', version: true },
  },
  relations: { books: { type: 'one-to-many', target: 'Book', inverseSide: 'author', cascade: true } },
});
const Book = new EntitySchema({
  name: 'Book',
  columns: {
    id: { type: 'uuid', primary: true, generated: 'uuid' },
    title: { type: 'text', comment: 'What it is called' },
    price: { type: 'numeric', precision: 9, scale: 2, default: 0 },
    state: { type: 'enum', enum: ['draft', 'published'], default: 'draft' },
    doc: { type: 'jsonb', default: {} },
    tags: { type: 'text', array: true, default: [] },
    numbers: { type: 'int', array: true, nullable: true },
    simple: { type: 'simple-array', nullable: true },
    cover: { type: 'bytea', nullable: true },
    day: { type: 'date', nullable: true },
    hour: { type: 'time', nullable: true },
    span: { type: 'interval', nullable: true },
    isbn: { type: 'bigint', nullable: true },
    weight: { type: 'double precision', nullable: true },
    sold: { type: 'boolean', default: false },
    shout: { type: 'text', generatedType: 'STORED', asExpression: 'upper(title)', nullable: true },
    code: { type: 'char', length: 3, nullable: true },
  },
  indices: [{ columns: ['title', 'price'] }, { columns: ['state'], where: '"sold" = false' }],
  checks: [{ expression: '"price" >= 0' }],
  uniques: [{ columns: ['title', 'day'] }],
  relations: {
    author: { type: 'many-to-one', target: 'Author', inverseSide: 'books', joinColumn: true, onDelete: 'CASCADE' },
    labels: { type: 'many-to-many', target: 'Label', joinTable: true, cascade: true },
  },
});
const Label = new EntitySchema({ name: 'Label', columns: { id: { type: 'bigint', primary: true, generated: 'identity' }, text: { type: 'varchar' } } });
const Node = new EntitySchema({
  name: 'Node',
  columns: { id: { type: 'int', primary: true, generated: true }, name: { type: String } },
  relations: { parent: { type: 'many-to-one', target: 'Node', treeParent: true }, children: { type: 'one-to-many', target: 'Node', inverseSide: 'parent', treeChildren: true } },
});

class First1700000000000 {
  async up(queries) {
    await queries.createTable(new Table({ name: 'shelf', columns: [
      { name: 'id', type: 'int', isPrimary: true, isGenerated: true, generationStrategy: 'increment' },
      { name: 'room', type: 'varchar', length: '40' },
      { name: 'kind', type: 'enum', enum: ['a', 'b'], default: "'a'" },
      { name: 'author_id', type: 'int', isNullable: true }] }), true);
    await queries.addColumn('shelf', new TableColumn({ name: 'level', type: 'int', default: 0 }));
    await queries.renameColumn('shelf', 'room', 'place');
    await queries.changeColumn('shelf', 'level', new TableColumn({ name: 'level', type: 'bigint', default: 1 }));
    await queries.createIndex('shelf', new TableIndex({ name: 'shelf_place', columnNames: ['place'], isUnique: true }));
    await queries.createForeignKey('shelf', new TableForeignKey({ columnNames: ['author_id'], referencedTableName: 'author', referencedColumnNames: ['id'], onDelete: 'SET NULL' }));
  }
  async down(queries) {
    const table = await queries.getTable('shelf');
    await queries.dropForeignKey('shelf', table.foreignKeys[0]);
    await queries.dropIndex('shelf', 'shelf_place');
    await queries.dropColumn('shelf', 'level');
    await queries.dropTable('shelf');
  }
}
First1700000000000.prototype.name = 'First1700000000000';

const options = {
  type: 'postgres', host: server.host, port: server.port, username: server.user, database: server.database,
  entities: [Author, Book, Label, Node], migrations: [First1700000000000], logging: false, uuidExtension: 'pgcrypto', installExtensions: false,
};
const source = new DataSource(options);

run('typeorm', {
  async 'an empty schema'() {
    await empty();
    await source.initialize();
  },
  async 'synchronize'() {
    await source.synchronize();
  },
  async 'synchronize again: nothing is to do'() {
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    assert.deepEqual(upQueries.map((query) => query.query), []);
    await source.synchronize();
  },
  async 'synchronize after a change of the entities'() {
    const columns = { ...Label.options.columns, text: { type: 'varchar', length: 60, nullable: true }, rank: { type: 'enum', enum: ['low', 'high'], default: 'low' } };
    const other = new DataSource({ ...options, entities: [Author, Book, Node, new EntitySchema({ ...Label.options, columns })] });
    await other.initialize();
    await other.synchronize();
    await other.destroy();
  },
  async 'what the schema is known to hold'() {
    const queries = source.createQueryRunner();
    const table = await queries.getTable('book');
    const column = (name) => table.columns.find((column) => column.name === name);
    assert.deepEqual([column('title').comment, column('price').precision, column('state').enum, column('tags').isArray, column('id').isPrimary, column('shout').asExpression],
      ['What it is called', 9, ['draft', 'published'], true, true, 'upper(title)']);
    assert.deepEqual([table.indices.length, table.checks.length, table.uniques.length, table.foreignKeys.length], [2, 1, 1, 1]);
    assert.ok(await queries.hasTable('author'));
    assert.ok(await queries.hasColumn('author', 'name'));
    await queries.release();
  },
  async 'save with relations'() {
    const author = await source.getRepository(Author).save({ name: 'Ann', books: [
      { title: 'One', price: '9.50', doc: { pages: 10 }, tags: ['x', 'y'], numbers: [1, 2], simple: ['a', 'b'], cover: Buffer.from('z'), day: '2024-02-29', hour: '12:30:00', isbn: '9781234567890', labels: [{ text: 'good' }] },
      { title: 'Two', state: 'published' }] });
    assert.match(author.books[0].id, /^[0-9a-f-]{36}$/);
    const [found] = await source.getRepository(Author).find({ relations: { books: { labels: true } }, where: { books: { title: Not('Two') } }, order: { books: { title: 'ASC' } }, take: 5 });
    const [one] = found.books;
    assert.deepEqual([one.price, one.doc, one.tags, one.numbers, one.simple, one.shout, one.labels.length, found.version], ['9.50', { pages: 10 }, ['x', 'y'], [1, 2], ['a', 'b'], 'ONE', 1, 1]);
  },
  async 'finders'() {
    const books = source.getRepository(Book);
    for (const where of [{ title: In(['One', 'x']) }, { title: ILike('o%') }, { tags: ArrayContains(['x']) }, { doc: JsonContains({ pages: 10 }) },
      { numbers: Not(IsNull()) }, { title: Raw((name) => `${name} ~* :pattern`, { pattern: '^one$' }) }]) {
      assert.equal(await books.countBy(where), 1, JSON.stringify(where));
    }
    const [rows, count] = await books.findAndCount({ skip: 0, take: 1, order: { price: { direction: 'DESC', nulls: 'LAST' } }, relations: { author: true } });
    assert.deepEqual([rows[0].title, count], ['One', 2]);
    assert.equal(await books.sum('price', {}), 9.5);
    assert.equal(await books.existsBy({ title: 'One' }), true);
  },
  async 'a query builder'() {
    const builder = source.getRepository(Author).createQueryBuilder('a').leftJoinAndSelect('a.books', 'b').where('b.price >= :p', { p: 0 })
      .andWhere((q) => 'a.id IN ' + q.subQuery().select('x.id').from(Author, 'x').where("x.name = 'Ann'").getQuery()).orderBy('b.title', 'DESC').take(10);
    assert.equal((await builder.getMany())[0].books.length, 2);
    assert.deepEqual(await source.createQueryBuilder(Book, 'b').select('b.state', 's').addSelect('count(*)', 'n').groupBy('b.state').having('count(*) > 0').orderBy('s').getRawMany(), [{ s: 'draft', n: '1' }, { s: 'published', n: '1' }]);
    await source.createQueryBuilder().update(Book).set({ price: () => 'price + 1' }).where('title = :t', { t: 'One' }).returning('*').execute();
    await source.createQueryBuilder().insert().into(Author).values({ name: 'Ann' }).orIgnore().execute();
    await source.getRepository(Author).upsert([{ name: 'Ann' }, { name: 'Bob' }], ['name']);
    await source.createQueryBuilder().insert().into(Author).values({ name: 'Bob' }).orUpdate(['name'], ['name'], { skipUpdateIfNoValuesChanged: true }).execute();
    let seen = 0;
    for await (const row of await source.createQueryBuilder(Book, 'b').stream()) seen += row.b_title ? 1 : 0;
    assert.equal(seen, 2);
  },
  async 'transactions with locks'() {
    await source.transaction('REPEATABLE READ', async (manager) => {
      await manager.findOne(Book, { where: { title: 'One' }, lock: { mode: 'pessimistic_write' } });
      await manager.transaction(async (inner) => { await inner.insert(Label, { text: 'inner' }); });
    });
    await source.transaction((manager) => manager.findOne(Book, { where: { title: 'One' }, lock: { mode: 'for_no_key_update' } }));
  },
  async 'rows that are locked are skipped'() {
    await source.transaction((manager) => manager.find(Book, { where: { title: 'One' }, lock: { mode: 'pessimistic_write', onLocked: 'skip_locked' } }));
  },
  async 'soft removal and restoration'() {
    const authors = source.getRepository(Author);
    await authors.softDelete({ name: 'Bob' });
    assert.equal(await authors.count(), 1);
    await authors.restore({ name: 'Bob' });
    await authors.delete({ name: 'Bob' });
    assert.equal(await authors.count({ withDeleted: true }), 1);
  },
  async 'migrations'() {
    assert.equal((await source.runMigrations({ transaction: 'all' })).length, 1);
    assert.equal(await source.showMigrations(), false);
    await source.undoLastMigration();
  },
  async 'the database dropped'() {
    await source.dropDatabase();
    await source.destroy();
  },
});
