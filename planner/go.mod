module github.com/onceward/onceward/planner

go 1.25
