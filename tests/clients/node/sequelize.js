// sequelize: sync by creation and by alteration, associations, enums, arrays, JSON, migrations by umzug.
const { Sequelize, DataTypes, Op, QueryTypes, Transaction } = require('sequelize');
const { Umzug, SequelizeStorage } = require('umzug');
const { assert, url, run, empty } = require('./checks');

const sequelize = new Sequelize(url, { logging: false, pool: { max: 3 } });

const Author = sequelize.define('Author', {
  name: { type: DataTypes.STRING(80), allowNull: false, unique: true },
  mail: { type: DataTypes.STRING, validate: { isEmail: true } },
});
const Book = sequelize.define('Book', {
  id: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4, primaryKey: true },
  title: { type: DataTypes.STRING, allowNull: false, comment: 'What it is called' },
  price: { type: DataTypes.DECIMAL(9, 2), defaultValue: 0 },
  state: { type: DataTypes.ENUM('draft', 'published'), defaultValue: 'draft' },
  doc: DataTypes.JSONB,
  tags: DataTypes.ARRAY(DataTypes.TEXT),
  cover: DataTypes.BLOB,
  day: DataTypes.DATEONLY,
  isbn: DataTypes.BIGINT,
  weight: DataTypes.DOUBLE,
  sold: { type: DataTypes.BOOLEAN, defaultValue: false },
}, { paranoid: true, indexes: [{ fields: ['title', { name: 'price', order: 'DESC' }] }, { fields: ['state'], where: { sold: false } }] });
const Tag = sequelize.define('Tag', { label: DataTypes.STRING });
Author.hasMany(Book, { onDelete: 'CASCADE' });
Book.belongsTo(Author);
Book.belongsToMany(Tag, { through: 'BookTags' });
Tag.belongsToMany(Book, { through: 'BookTags' });

run('sequelize', {
  async 'an empty schema'() {
    await empty();
    await sequelize.authenticate();
  },
  async 'sync'() {
    await sequelize.sync();
    await sequelize.sync();
  },
  async 'sync by alteration'() {
    await sequelize.sync({ alter: true });
  },
  async 'sync of a model that has changed'() {
    sequelize.define('Tag', { label: { type: DataTypes.STRING(40), allowNull: false }, level: { type: DataTypes.ENUM('low', 'high'), defaultValue: 'low' } });
    await sequelize.models.Tag.sync({ alter: true });
  },
  async 'describing a table'() {
    const queries = sequelize.getQueryInterface();
    const columns = await queries.describeTable('Books');
    assert.deepEqual([columns.id.primaryKey, columns.title.allowNull, columns.title.comment, columns.state.special, columns.price.type],
      [true, false, 'What it is called', ['draft', 'published'], 'NUMERIC']);
    assert.ok((await queries.showAllTables()).includes('Books'));
    const indexes = await queries.showIndex('Books');
    assert.deepEqual(indexes.map((index) => [index.name, index.fields.map((field) => field.attribute)]).sort(), [['Books_pkey', ['id']], ['books_state', ['state']], ['books_title_price', ['title', 'price']]]);
    const keys = await queries.getForeignKeyReferencesForTable('Books');
    assert.deepEqual(keys.map((key) => [key.columnName, key.referencedTableName, key.referencedColumnName]), [['AuthorId', 'Authors', 'id']]);
    assert.ok((await queries.showConstraint('Books')).length >= 2);
  },
  async 'creation with associations'() {
    const ann = await Author.create({ name: 'Ann', mail: 'ann@example.com', Books: [{ title: 'One', price: '9.50', doc: { pages: 10, a: { b: [1] } }, tags: ['x', 'y'], cover: Buffer.from('z'), day: '2024-02-29', isbn: '9781234567890' }, { title: 'Two', state: 'published' }] }, { include: Book });
    assert.equal(ann.Books.length, 2);
    const tag = await Tag.create({ label: 'good' });
    await ann.Books[0].addTag(tag);
    const found = await Book.findOne({ where: { title: 'One' }, include: [Author, Tag] });
    assert.deepEqual([found.Author.name, found.Tags.length, found.price, found.doc.a.b], ['Ann', 1, '9.50', [1]]);
  },
  async 'finders'() {
    assert.equal(await Book.count({ where: { doc: { pages: 10 } } }), 1);
    assert.equal(await Book.count({ where: { 'doc.a.b': { [Op.ne]: null } } }), 1);
    assert.equal(await Book.count({ where: { tags: { [Op.contains]: ['x'] } } }), 1);
    assert.equal(await Book.count({ where: { tags: { [Op.overlap]: ['x', 'q'] } } }), 1);
    assert.equal(await Book.count({ where: { doc: { [Op.contains]: { pages: 10 } } } }), 1);
    assert.equal(await Book.count({ where: { title: { [Op.iLike]: 'o%' }, price: { [Op.between]: [1, 10] }, state: { [Op.in]: ['draft'] } } }), 1);
    assert.equal(await Book.count({ where: { title: { [Op.iLike]: { [Op.any]: ['o%', 't%'] } } } }), 2);
    const { rows, count } = await Author.findAndCountAll({ include: { model: Book, required: true }, distinct: true, limit: 10, order: [['name', 'ASC'], [Book, 'title', 'DESC']] });
    assert.deepEqual([rows.length, rows[0].Books.length, count], [1, 2, 1]);
    const sums = await Book.findAll({ attributes: ['AuthorId', [sequelize.fn('SUM', sequelize.col('price')), 'total']], group: 'AuthorId', having: sequelize.literal('count(*) > 1'), raw: true });
    assert.deepEqual(sums, [{ AuthorId: 1, total: '9.50' }]);
    await Author.findAll({ include: { model: Book, separate: true, limit: 1, order: [['title', 'ASC']] } });
  },
  async 'findOrCreate, upsert, bulkCreate'() {
    const [, created] = await Author.findOrCreate({ where: { name: 'Bob' }, defaults: { mail: 'bob@example.com' } });
    assert.equal(created, true);
    const [again] = await Author.upsert({ name: 'Bob', mail: 'b@example.com' }, { conflictFields: ['name'] });
    assert.equal(again.mail, 'b@example.com');
    await Author.bulkCreate([{ name: 'Cid' }, { name: 'Bob', mail: 'c@example.com' }], { updateOnDuplicate: ['mail'], conflictAttributes: ['name'] });
    await Author.bulkCreate([{ name: 'Cid' }], { ignoreDuplicates: true });
    assert.equal(await Author.count(), 3);
  },
  async 'update, increment, destroy, restore'() {
    const [changed, rows] = await Book.update({ sold: true }, { where: { title: 'One' }, returning: true });
    assert.deepEqual([changed, rows[0].sold], [1, true]);
    await Book.increment({ price: 1 }, { where: { title: 'One' } });
    await Book.destroy({ where: { title: 'Two' } });
    assert.equal(await Book.count(), 1);
    await Book.restore();
    assert.equal(await Book.count(), 2);
  },
  async 'transactions with locks'() {
    await sequelize.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.REPEATABLE_READ }, async (transaction) => {
      await Book.findOne({ where: { title: 'One' }, lock: transaction.LOCK.UPDATE, transaction });
      await Book.findOne({ include: { model: Author, required: true }, lock: { level: transaction.LOCK.UPDATE, of: Book }, transaction });
    });
    await sequelize.transaction(async (transaction) => {
      await Book.findAll({ lock: true, skipLocked: true, limit: 1, transaction });
    });
  },
  async 'errors by their class'() {
    await assert.rejects(Author.create({ name: 'Ann' }), (error) => error.name === 'SequelizeUniqueConstraintError' && error.fields.name === 'Ann');
    await assert.rejects(Book.create({ title: 'x', AuthorId: 999 }), (error) => error.name === 'SequelizeForeignKeyConstraintError' && error.table === 'Books');
  },
  async 'parameters and replacements'() {
    assert.deepEqual(await sequelize.query('SELECT :a::int + $$1$$::int AS n', { replacements: { a: 1 }, type: QueryTypes.SELECT }), [{ n: 2 }]);
    assert.deepEqual(await sequelize.query('SELECT $1::int AS n', { bind: [1], type: QueryTypes.SELECT }), [{ n: 1 }]);
  },
  async 'migrations by umzug'() {
    const umzug = new Umzug({
      migrations: [{
        name: '1', up: async ({ context: queries }) => {
          await queries.createTable('shelf', { id: { type: DataTypes.INTEGER, primaryKey: true, autoIncrement: true }, room: { type: DataTypes.STRING, allowNull: false }, kind: DataTypes.ENUM('a', 'b') });
          await queries.addColumn('shelf', 'AuthorId', { type: DataTypes.INTEGER, references: { model: 'Authors', key: 'id' }, onUpdate: 'CASCADE', onDelete: 'SET NULL' });
          await queries.changeColumn('shelf', 'room', { type: DataTypes.TEXT, allowNull: true, defaultValue: 'x' });
          await queries.renameColumn('shelf', 'room', 'place');
          await queries.addIndex('shelf', ['place'], { unique: true, name: 'shelf_place' });
          await queries.addConstraint('shelf', { type: 'check', fields: ['place'], name: 'place_check', where: { place: ['x', 'y'] } });
          await queries.bulkInsert('shelf', [{ place: 'x' }, { place: 'y' }]);
        },
        down: async ({ context: queries }) => {
          await queries.removeConstraint('shelf', 'place_check');
          await queries.removeIndex('shelf', 'shelf_place');
          await queries.removeColumn('shelf', 'AuthorId');
          await queries.dropTable('shelf');
        },
      }],
      context: sequelize.getQueryInterface(), storage: new SequelizeStorage({ sequelize }), logger: undefined,
    });
    assert.equal((await umzug.up()).length, 1);
    assert.equal((await umzug.pending()).length, 0);
    assert.equal((await umzug.down()).length, 1);
  },
  async 'an array of an enum'() {
    const Day = sequelize.define('Day', { moods: DataTypes.ARRAY(DataTypes.ENUM('sad', 'glad')) });
    await Day.sync();
    await Day.create({ moods: ['glad', 'sad'] });
    assert.deepEqual((await Day.findOne({ where: { moods: { [Op.contains]: ['sad'] } } })).moods, ['glad', 'sad']);
  },
  async 'sync by force, and all dropped'() {
    await sequelize.sync({ force: true });
    await sequelize.drop({});
  },
});
