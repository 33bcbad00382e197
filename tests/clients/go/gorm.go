package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/datatypes"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Company struct {
	gorm.Model
	Name      string     `gorm:"size:80;uniqueIndex;not null;comment:what it is called"`
	Employees []Employee `gorm:"constraint:OnDelete:CASCADE"`
}

type Employee struct {
	ID        uuid.UUID `gorm:"type:uuid;default:gen_random_uuid();primaryKey"`
	CompanyID uint      `gorm:"index:by_company,priority:1"`
	Company   Company
	Name      string  `gorm:"index:by_company,priority:2,sort:desc;check:name_is_long,length(name) > 1"`
	Pay       float64 `gorm:"type:numeric(12,2);default:0"`
	Doc       datatypes.JSON
	Born      *time.Time `gorm:"type:date"`
	Active    bool       `gorm:"default:true"`
	Photo     []byte
	Number    int64   `gorm:"autoIncrement:false"`
	Skills    []Skill `gorm:"many2many:employee_skills"`
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

type Skill struct {
	ID   uint
	Name string `gorm:"unique"`
}

// What an employee becomes in the next version of the program.
type EmployeeNext struct {
	ID     uuid.UUID `gorm:"type:uuid;default:gen_random_uuid();primaryKey"`
	Name   string    `gorm:"size:120;not null"`
	Title  string    `gorm:"size:40;default:none;index"`
	Number int32
}

func (EmployeeNext) TableName() string { return "employees" }

func gormChecks() []check {
	var db *gorm.DB
	return []check{
		{"gorm: a connection", func() (err error) {
			db, err = gorm.Open(postgres.Open(address()), &gorm.Config{Logger: logger.Discard, TranslateError: true})
			return err
		}},
		{"gorm: AutoMigrate", func() error { return db.AutoMigrate(&Company{}, &Employee{}, &Skill{}) }},
		{"gorm: AutoMigrate again", func() error { return db.AutoMigrate(&Company{}, &Employee{}, &Skill{}) }},
		{"gorm: creation with associations", func() error {
			company := Company{Name: "Acme", Employees: []Employee{{Name: "Ann", Pay: 10.5, Doc: datatypes.JSON(`{"a": {"b": 1}}`), Skills: []Skill{{Name: "Go"}}}, {Name: "Bob"}}}
			if err := db.Create(&company).Error; err != nil {
				return err
			}
			var found Company
			if err := db.Preload("Employees", func(db *gorm.DB) *gorm.DB { return db.Order("name") }).Preload("Employees.Skills").First(&found).Error; err != nil {
				return err
			}
			return same([]any{len(found.Employees), found.Employees[0].Pay, found.Employees[0].Skills[0].Name, found.Employees[1].Active}, []any{2, 10.5, "Go", true})
		}},
		{"gorm: finders", func() error {
			var employees []Employee
			if err := db.Joins("Company").Where("employees.name IN ?", []string{"Ann", "Cid"}).Where(`"Company"."name" = ?`, "Acme").Find(&employees).Error; err != nil {
				return err
			}
			if err := same(len(employees), 1); err != nil {
				return err
			}
			if err := db.Where(datatypes.JSONQuery("doc").HasKey("a", "b")).Find(&employees).Error; err != nil {
				return err
			}
			if err := db.Where(datatypes.JSONQuery("doc").Equals(1, "a", "b")).Find(&employees).Error; err != nil {
				return err
			}
			var sums []struct {
				CompanyID uint
				Total     float64
			}
			if err := db.Model(&Employee{}).Select("company_id, sum(pay) AS total").Group("company_id").Having("sum(pay) > ?", 1).Scan(&sums).Error; err != nil {
				return err
			}
			var count int64
			if err := db.Model(&Employee{}).Where("EXISTS (?)", db.Model(&Company{}).Select("1").Where("companies.id = employees.company_id")).Count(&count).Error; err != nil {
				return err
			}
			return same([]any{len(sums), count}, []any{1, int64(2)})
		}},
		{"gorm: upserts", func() error {
			skills := []Skill{{Name: "Go"}, {Name: "Rust"}}
			if err := db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).Create(&skills).Error; err != nil {
				return err
			}
			if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Skill{Name: "Go"}).Error; err != nil {
				return err
			}
			var skill Skill
			if err := db.Where(Skill{Name: "SQL"}).FirstOrCreate(&skill).Error; err != nil {
				return err
			}
			return db.Save(&Skill{ID: skill.ID, Name: "SQL:2023"}).Error
		}},
		{"gorm: updates with returning", func() error {
			var changed []Employee
			if err := db.Model(&changed).Clauses(clause.Returning{}).Where("name = ?", "Ann").Updates(map[string]any{"pay": gorm.Expr("pay + ?", 1), "doc": datatypes.JSONSet("doc").Set("{a,c}", 2)}).Error; err != nil {
				return err
			}
			if err := same(changed[0].Pay, 11.5); err != nil {
				return err
			}
			return db.Where("name = ?", "Bob").Delete(&Employee{}).Error
		}},
		{"gorm: transactions with savepoints and locks", func() error {
			return db.Transaction(func(tx *gorm.DB) error {
				_ = tx.Transaction(func(inner *gorm.DB) error {
					inner.Create(&Skill{Name: "lost"})
					return errors.New("undone")
				})
				var employee Employee
				return tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&employee).Error
			})
		}},
		{"gorm: rows that are locked are skipped", func() error {
			return db.Transaction(func(tx *gorm.DB) error {
				var employee Employee
				return tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).First(&employee).Error
			})
		}},
		{"gorm: errors by their kind", func() error {
			if err := db.Create(&Company{Name: "Acme"}).Error; !errors.Is(err, gorm.ErrDuplicatedKey) {
				return fmt.Errorf("expected ErrDuplicatedKey, got %v", err)
			}
			if err := db.Create(&Employee{Name: "Eve", CompanyID: 999}).Error; !errors.Is(err, gorm.ErrForeignKeyViolated) {
				return fmt.Errorf("expected ErrForeignKeyViolated, got %v", err)
			}
			return nil
		}},
		{"gorm: rows in batches", func() error {
			var employees []Employee
			return db.Unscoped().FindInBatches(&employees, 1, func(*gorm.DB, int) error { return nil }).Error
		}},
		{"gorm: columns as the schema holds them", func() error {
			columns, err := db.Migrator().ColumnTypes(&Employee{})
			if err != nil {
				return err
			}
			seen := map[string]string{}
			for _, column := range columns {
				kind, _ := column.ColumnType()
				nullable, _ := column.Nullable()
				primary, _ := column.PrimaryKey()
				seen[column.Name()] = fmt.Sprint(kind, " ", nullable, " ", primary)
			}
			return same([]string{seen["id"], seen["pay"], seen["name"], seen["created_at"]},
				[]string{"uuid false true", "numeric(12,2) true false", "text true false", "timestamp with time zone true false"})
		}},
		{"gorm: indexes, constraints and tables", func() error {
			migrator := db.Migrator()
			indexes, err := migrator.GetIndexes(&Employee{})
			if err != nil {
				return err
			}
			tables, err := migrator.GetTables()
			if err != nil {
				return err
			}
			return same([]any{len(indexes), len(tables) >= 4, migrator.CurrentDatabase(), migrator.HasIndex(&Employee{}, "by_company"), migrator.HasConstraint(&Employee{}, "name_is_long"), migrator.HasColumn(&Employee{}, "doc"), migrator.HasTable("nothing")},
				[]any{2, true, "halcyon", true, true, true, false})
		}},
		{"gorm: AutoMigrate of the next version", func() error { return db.AutoMigrate(&EmployeeNext{}) }},
		{"gorm: alterations by hand", func() error {
			migrator := db.Migrator()
			for _, step := range []func() error{
				func() error { return migrator.RenameColumn(&EmployeeNext{}, "title", "label") },
				func() error { return migrator.DropColumn(&EmployeeNext{}, "label") },
				func() error { return migrator.DropConstraint(&Employee{}, "name_is_long") },
				func() error { return migrator.RenameIndex(&Employee{}, "by_company", "by_firm") },
				func() error { return migrator.DropIndex(&Employee{}, "by_firm") },
				func() error {
					return migrator.CreateView("people", gorm.ViewOption{Query: db.Model(&Employee{}).Select("name")})
				},
				func() error { return migrator.DropView("people") },
				func() error { return migrator.RenameTable("skills", "abilities") },
				func() error { return migrator.DropTable("employee_skills", "abilities", "employees", "companies") },
			} {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}
