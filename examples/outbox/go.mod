module github.com/onceward/onceward/examples/outbox

go 1.26.0
