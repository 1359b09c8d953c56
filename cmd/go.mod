module github.com/onceward/onceward/cmd

go 1.25
