// What Go programs do through pgx, database/sql with lib/pq, and GORM.
package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
)

type check struct {
	name string
	run  func() error
}

func address() string {
	host, port := os.Getenv("HOST"), os.Getenv("PORT")
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "5433"
	}
	return fmt.Sprintf("host=%s port=%s user=halcyon dbname=halcyon sslmode=disable", host, port)
}

// same tells what differs; nil if nothing does.
func same(seen, expected any) error {
	if reflect.DeepEqual(seen, expected) {
		return nil
	}
	return fmt.Errorf("expected %v, got %v", expected, seen)
}

func main() {
	failed := false
	for _, group := range [][]check{pgxChecks(), pqChecks(), gormChecks()} {
		for _, check := range group {
			if err := guarded(check.run); err != nil {
				failed = true
				text := strings.Join(strings.Fields(err.Error()), " ")
				if len(text) > 500 {
					text = text[:500]
				}
				fmt.Printf("FAILED %s: %s\n", check.name, text)
			} else {
				fmt.Printf("ok %s\n", check.name)
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run()
}
