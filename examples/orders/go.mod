module github.com/onceward/onceward/examples/orders

go 1.25
