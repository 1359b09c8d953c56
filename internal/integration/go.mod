module github.com/onceward/onceward/internal/integration

go 1.25
